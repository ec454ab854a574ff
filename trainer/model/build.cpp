#include <torch/torch.h>

#include "trainer/model/config_reader.h"
#include "trainer/model/dense.h"
#include "trainer/model/gpt2.h"
#include "trainer/model/model.h"

namespace muster::model {
namespace {

Result<std::unique_ptr<Model>> build_tabular(const job::Model::Tabular& spec,
                                             const data::Shape& shape) {
  return build_dense({"tabular", spec.hidden, spec.activation, CategoryInput::embedding}, shape);
}

Result<std::unique_ptr<Model>> build_mlp(const nlohmann::json& config, const data::Shape& shape) {
  ConfigReader reader("mlp", config);
  DenseSpec spec{"mlp", {}, "", CategoryInput::one_hot};
  spec.hidden = reader.integers("hidden", {64, 64}, 1);
  spec.activation = reader.text("activation", "relu");
  MUSTER_CHECK_OK(reader.finish());
  return build_dense(spec, shape);
}

Result<std::unique_ptr<Model>> build_builtin(const job::Model::Builtin& spec,
                                             const data::Shape& shape) {
  if (spec.name == "mlp") return build_mlp(spec.config, shape);
  if (spec.name == "gpt2") {
    MUSTER_TRY(gpt2, read_gpt2_spec(spec.config));
    return build_gpt2(gpt2, shape);
  }
  return Error{Code::unsupported, "spec.model.builtin.name: " + spec.name +
                                      " comes with a later version; this one has mlp and gpt2"};
}

}  // namespace

std::string Model::sample(const std::string&, std::int64_t, std::uint64_t) {
  return "";
}

Result<std::unique_ptr<Model>> build(const job::Model& spec, const data::Shape& shape,
                                     std::int64_t seed) {
  try {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    if (spec.tabular) return build_tabular(*spec.tabular, shape);
    if (spec.builtin) return build_builtin(*spec.builtin, shape);
  } catch (const std::exception& error) {  // for the most part: not enough memory
    return Error{Code::internal, std::string("building the model: ") + error.what()};
  }
  return Error{Code::unsupported,
               "spec.model: this version trains tabular and builtin models; the others come later"};
}

}  // namespace muster::model
