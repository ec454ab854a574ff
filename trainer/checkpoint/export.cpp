#include "trainer/checkpoint/export.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/file.h"

namespace muster::checkpoint {

Status write_export(const std::string& folder, std::span<const TensorView> tensors,
                    const nlohmann::json& config) {
  const auto path = folder + "/model.safetensors";
  if (const auto written = write_safetensors(path + ".new", tensors, {{"format", "pt"}});
      !written.ok()) {
    return written.error();
  }
  if (std::rename((path + ".new").c_str(), path.c_str()) != 0) {
    return Error{Code::io, "cannot replace " + path + ": " + std::strerror(errno)};
  }
  return replace_file(folder + "/config.json", config.dump(2) + "\n");
}

}  // namespace muster::checkpoint
