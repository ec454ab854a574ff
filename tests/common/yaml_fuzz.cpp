#include <cstddef>
#include <cstdint>
#include <string>

#include "common/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)muster::parse_yaml(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  return 0;
}
