// The end of a run: last checkpoint, export, summary.
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <fstream>

#include "common/file.h"
#include "common/json_fields.h"
#include "common/log.h"
#include "trainer/checkpoint/export.h"
#include "trainer/loop/trainer.h"

namespace muster::loop {
namespace {

Status write_model(model::Model& model, const data::Shape& shape, const std::string& folder) {
  std::vector<torch::Tensor> kept;
  std::vector<checkpoint::TensorView> views;
  for (const auto& [name, tensor] : model.export_tensors()) {
    kept.push_back(tensor.detach().contiguous());
    const auto& t = kept.back();
    views.push_back(
        {name, "F32", t.sizes().vec(), t.const_data_ptr(), static_cast<std::uint64_t>(t.nbytes())});
  }
  auto config = model.config();
  if (!shape.preprocessing.empty()) config["preprocessing"] = shape.preprocessing;
  return checkpoint::write_export(folder, views, config);
}

}  // namespace

Result<Outcome> Trainer::finish() {
  MUSTER_CHECK_OK(complete_checkpoint());
  nlohmann::json result = nlohmann::json::object();
  if (leader()) {
    const double wall =
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() -
        started_;
    result = {{"state", "Succeeded"},
              {"steps", step_},
              {"samples", samples()},
              {"trainingSeconds", wall},
              {"worldSize", assignment_.world_size},
              {"generation", assignment_.generation.n},
              {"parametersSha256", with_.state.parameters_sha256()}};
    put_finite(result, "finalLoss", tracker_.loss);
    if (trained_samples_ > 0) result["samplesPerSecond"] = trained_samples_ / wall;
    if (with_.data.validation && std::isfinite(tracker_.validation.loss)) {
      result["validation"] = nlohmann::json::object();
      put_finite(result["validation"], "loss", tracker_.validation.loss);
      put_finite(result["validation"], "accuracy", tracker_.validation.accuracy);
    }
    if (!with_.output.empty()) {
      const auto folder = with_.output + "/export";
      MUSTER_CHECK_OK(make_folder(folder));
      MUSTER_CHECK_OK(write_model(with_.model, with_.data.train->shape(), folder));
      const auto text =
          with_.model.sample("\n", 400, static_cast<std::uint64_t>(spec_.training.seed));
      if (!text.empty()) {
        MUSTER_CHECK_OK(replace_file(folder + "/sample.txt", text));
        result["sample"] = with_.output + "/export/sample.txt";
      }
      MUSTER_CHECK_OK(replace_file(with_.output + "/summary.json", result.dump(2) + "\n"));
    }
  }
  MUSTER_CHECK_OK(with_.client.finish(result));
  return Outcome::finished;
}

}  // namespace muster::loop
