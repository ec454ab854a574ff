// What others load: model.safetensors under the model's own names, and config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "trainer/checkpoint/safetensors.h"

namespace muster::checkpoint {

// Each file is there whole, old or new: written under another name, then renamed. The folder
// exists.
Status write_export(const std::string& folder, std::span<const TensorView> tensors,
                    const nlohmann::json& config);

}  // namespace muster::checkpoint
