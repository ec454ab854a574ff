// YAML 1.2 core (and JSON, which is a part of it) to JSON values.
//
// `yes` and `on` are strings, a quoted '1' is a string, duplicate keys and merge keys are errors.
// Caps on bytes, depth and nodes are checked while aliases are expanded, so an alias bomb is
// refused early.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/result.h"

namespace muster {

inline constexpr std::size_t yaml_byte_limit = 1 << 20;
inline constexpr std::size_t yaml_node_limit = 100'000;
inline constexpr int yaml_depth_limit = 64;
inline constexpr std::size_t yaml_document_limit = 1000;

// A value a document; empty documents are left out. Errors: Code::invalid_job with source and line.
Result<std::vector<nlohmann::json>> parse_yaml(const std::string& text, const std::string& source);

}  // namespace muster
