// Whole files as strings, and durable writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"

namespace muster {

// Errors: Code::io with the path and the system's words; larger than `limit` bytes is refused.
Result<std::string> read_file(const std::string& path, std::uint64_t limit = 64u << 20);

// Readers see the old content or the new, never a part: temporary file in the same folder, fsync,
// rename.
Status replace_file(const std::string& path, std::string_view content);

// Creates the folder and its parents.
Status make_folder(const std::string& path);

}  // namespace muster
