// Shell completion scripts, made from the program's own commands and options so that they cannot
// drift from them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace muster::cli {

// `shell`: bash | zsh | fish.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace muster::cli
