// A folder of files for one test, removed with it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace muster::data {

class Folder {
 public:
  Folder() {
    auto name = (std::filesystem::temp_directory_path() / "muster-data-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }

  // Writes the file and returns its path.
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream out(path(name), std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

// Integers as the bytes of a token file.
template <class Token>
std::string token_bytes(const std::vector<Token>& tokens) {
  std::string bytes;
  for (const auto token : tokens) {
    for (std::size_t b = 0; b < sizeof(Token); ++b) {
      bytes += static_cast<char>((static_cast<std::uint64_t>(token) >> (8 * b)) & 0xff);
    }
  }
  return bytes;
}

}  // namespace muster::data
