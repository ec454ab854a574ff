#include "trainer/strategy/flat_state.h"

#include <cstring>

#include "common/crypto.h"

namespace muster::strategy {
namespace {

constexpr std::int64_t alignment = 16;  // fp32 elements: 64 bytes

std::vector<std::string> moment_names(const job::Optimizer& optimizer) {
  if (optimizer.type != "sgd") return {"exp_avg", "exp_avg_sq"};
  if (optimizer.momentum > 0) return {"momentum_buffer"};
  return {};
}

torch::Tensor view_of(const torch::Tensor& flat, const checkpoint::ParameterLayout& p,
                      std::int64_t count) {
  return flat.narrow(0, p.offset, count).view(p.shape);
}

}  // namespace

checkpoint::Layout make_layout(const NamedParameters& parameters) {
  checkpoint::Layout layout;
  for (const auto& [name, tensor] : parameters) {
    layout.parameters.push_back({name, tensor.sizes().vec(), layout.total});
    layout.total += (tensor.numel() + alignment - 1) / alignment * alignment;
  }
  return layout;
}

Result<std::unique_ptr<FlatState>> FlatState::create(NamedParameters parameters,
                                                     const job::Optimizer& optimizer) {
  auto state = std::unique_ptr<FlatState>(new FlatState());
  state->layout_ = make_layout(parameters);
  const auto total = state->layout_.total;
  MUSTER_TRY(arena, comm::Arena::create(static_cast<std::size_t>(total) * 4 + 4096));
  MUSTER_TRY(memory, arena->allocate(static_cast<std::size_t>(total) * 4));
  state->arena_ = arena;
  state->values_ = torch::zeros({total});
  // The arena outlives the tensor: both belong to this object.
  state->gradients_ = torch::from_blob(memory, {total});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto& tensor = parameters[i].second;
    const auto& place = state->layout_.parameters[i];
    torch::NoGradGuard no_grad;
    auto view = view_of(state->values_, place, tensor.numel());
    view.copy_(tensor);
    tensor.set_data(view);
    tensor.mutable_grad() = view_of(state->gradients_, place, tensor.numel());
  }
  for (const auto& name : moment_names(optimizer)) {
    state->moments_.emplace_back(name, torch::zeros({total}));
  }
  state->named_ = std::move(parameters);
  return state;
}

std::vector<checkpoint::StateBuffer> FlatState::buffers() {
  std::vector<checkpoint::StateBuffer> all;
  all.push_back({"parameters", values_.data_ptr<float>(), layout_.total});
  for (auto& [name, tensor] : moments_) {
    all.push_back({name, tensor.data_ptr<float>(), layout_.total});
  }
  return all;
}

void FlatState::zero_gradients() {
  std::memset(gradients_.data_ptr(), 0, static_cast<std::size_t>(layout_.total) * 4);
}

bool FlatState::views_intact() const {
  const auto* values = values_.const_data_ptr<float>();
  const auto* gradients = gradients_.const_data_ptr<float>();
  for (std::size_t i = 0; i < named_.size(); ++i) {
    const auto offset = layout_.parameters[i].offset;
    const auto& tensor = named_[i].second;
    if (tensor.const_data_ptr<float>() != values + offset) return false;
    if (!tensor.grad().defined()) return false;
    if (tensor.grad().const_data_ptr<float>() != gradients + offset) return false;
  }
  return true;
}

std::string FlatState::parameters_sha256() const {
  crypto::Sha256 hash;
  for (std::size_t i = 0; i < named_.size(); ++i) {
    hash.update(values_.const_data_ptr<float>() + layout_.parameters[i].offset,
                static_cast<std::size_t>(named_[i].second.numel()) * 4);
  }
  return hash.hex();
}

}  // namespace muster::strategy
