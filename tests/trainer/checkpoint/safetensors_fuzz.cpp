#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "trainer/checkpoint/safetensors.h"

// Whatever is accepted lies within the bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  std::map<std::string, std::string> metadata;
  const auto tensors = muster::checkpoint::SafetensorsFile::parse(bytes, &metadata);
  if (!tensors.ok()) return 0;
  for (const auto& t : *tensors) {
    const auto* begin = static_cast<const std::byte*>(t.data);
    if (begin < bytes.data() || begin + t.bytes > bytes.data() + bytes.size()) std::abort();
  }
  return 0;
}
