// The safetensors format (https://huggingface.co/docs/safetensors): 8 bytes little-endian header
// length, a JSON header, the tensors' bytes. Reading maps the file; headers are checked before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"

namespace muster::checkpoint {

struct TensorView {
  std::string name;
  std::string dtype;  // F32, BF16, I64 ...
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
  std::uint64_t bytes = 0;
};

// Writes `path` and fsyncs it (not its folder). Returns its size and SHA-256 (hex) through
// `written`.
struct Written {
  std::uint64_t bytes = 0;
  std::string sha256;
};
Result<Written> write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                                  const std::map<std::string, std::string>& metadata = {});

class SafetensorsFile {
 public:
  // Errors: Code::io; Code::protocol for a header that lies (bounds, overlaps, caps: 100 MB, depth
  // 8).
  static Result<std::unique_ptr<SafetensorsFile>> open(const std::string& path);
  static Result<std::vector<TensorView>> parse(std::span<const std::byte> bytes,
                                               std::map<std::string, std::string>* metadata);
  ~SafetensorsFile();
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
  void* map_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace muster::checkpoint
