// GPT-2 (Radford et al. 2019), with the parameter names, layouts and config.json of Hugging Face's
// GPT2LMHeadModel: transformers can load the export.
#pragma once

#include <memory>

#include "trainer/model/model.h"

namespace muster::model {

struct Gpt2Spec {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t hidden = 768;
  bool tie_weights = true;  // the head is the token embedding
};

// Errors: Code::invalid_job.
Result<Gpt2Spec> read_gpt2_spec(const nlohmann::json& config);
Result<std::unique_ptr<Model>> build_gpt2(const Gpt2Spec& spec, const data::Shape& shape);

}  // namespace muster::model
