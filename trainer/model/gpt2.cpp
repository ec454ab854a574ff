#include "trainer/model/gpt2.h"

#include <torch/torch.h>

#include <cmath>

#include "trainer/model/batch_tensors.h"
#include "trainer/model/bias_gelu.h"
#include "trainer/model/config_reader.h"
#include "trainer/model/projection.h"

namespace muster::model {
namespace {

constexpr double kEpsilon = 1e-5;  // of the layer norms
constexpr double kInitial = 0.02;  // standard deviation of the weights

// y = x W + b with W as [in, out]: the layout that GPT-2's checkpoints have.
struct Projection {
  torch::Tensor weight, bias;
  torch::Tensor operator()(const torch::Tensor& x) const {
    return project(x, weight, WeightLayout::in_out, bias);
  }
  torch::Tensor without_bias(const torch::Tensor& x) const {
    return project(x, weight, WeightLayout::in_out);
  }
  torch::Tensor onto(const torch::Tensor& residual, const torch::Tensor& x) const {
    return project_onto(residual, x, weight, WeightLayout::in_out, bias);
  }
};

struct Norm {
  torch::Tensor weight, bias;
  torch::Tensor operator()(const torch::Tensor& x) const {
    return at::layer_norm(x, {x.size(-1)}, weight, bias, kEpsilon);
  }
};

torch::Tensor leaf(torch::Tensor tensor) {
  return tensor.set_requires_grad(true);
}

torch::Tensor normal(at::IntArrayRef sizes, double deviation) {
  return leaf(torch::empty(sizes).normal_(0, deviation));
}

Norm make_norm(std::int64_t width) {
  return {leaf(torch::ones({width})), leaf(torch::zeros({width}))};
}

Projection make_projection(std::int64_t in, std::int64_t out, double deviation) {
  return {normal({in, out}, deviation), leaf(torch::zeros({out}))};
}

// Keys and values of the positions before: [1, heads, length, size]. Undefined: none.
struct Past {
  torch::Tensor keys, values;
};

struct Block {
  std::int64_t heads;
  Norm ln_1;
  Projection attn_c_attn, attn_c_proj;
  Norm ln_2;
  Projection mlp_c_fc, mlp_c_proj;

  // x: [samples * length, hidden]; the result is not projected yet. With a past, x are the
  // positions after it: any number when it is empty, else one.
  torch::Tensor attention(const torch::Tensor& x, std::int64_t samples, std::int64_t length,
                          Past* past) const {
    const std::int64_t width = x.size(1);
    // Views all the way: the kernel takes strided heads and writes [samples, length, heads, size].
    const auto qkv = attn_c_attn(x).view({samples, length, 3, heads, width / heads}).unbind(2);
    torch::Tensor keys = qkv[1].transpose(1, 2), values = qkv[2].transpose(1, 2);
    const bool causal = past == nullptr || !past->keys.defined();
    if (!causal) {
      keys = at::cat({past->keys, keys}, 2);
      values = at::cat({past->values, values}, 2);
    }
    if (past != nullptr) *past = {keys, values};
    const torch::Tensor mixed =
        at::scaled_dot_product_attention(qkv[0].transpose(1, 2), keys, values, {}, 0.0, causal);
    return mixed.transpose(1, 2).reshape({samples * length, width});
  }

  torch::Tensor operator()(const torch::Tensor& input, std::int64_t samples, std::int64_t length,
                           Past* past) const {
    const torch::Tensor x = attn_c_proj.onto(input, attention(ln_1(input), samples, length, past));
    return mlp_c_proj.onto(x, bias_gelu(mlp_c_fc.without_bias(ln_2(x)), mlp_c_fc.bias));
  }
};

Block make_block(const Gpt2Spec& spec) {
  const std::int64_t width = spec.hidden;
  const double residual = kInitial / std::sqrt(2.0 * static_cast<double>(spec.layers));
  // Braces evaluate from left to right: the random stream follows the order of the parameters.
  return Block{spec.heads,
               make_norm(width),
               make_projection(width, 3 * width, kInitial),
               make_projection(width, width, residual),
               make_norm(width),
               make_projection(width, 4 * width, kInitial),
               make_projection(4 * width, width, residual)};
}

class Gpt2 final : public Model {
 public:
  Gpt2(const Gpt2Spec& spec, const data::Shape& shape) : spec_(spec), shape_(shape) {
    wte_ = normal({shape.vocabulary_size, spec.hidden}, kInitial);
    wpe_ = normal({shape.sequence_length, spec.hidden}, kInitial);
    for (std::int64_t i = 0; i < spec.layers; ++i) blocks_.push_back(make_block(spec));
    ln_f_ = make_norm(spec.hidden);
    head_ = spec.tie_weights ? wte_ : normal({shape.vocabulary_size, spec.hidden}, kInitial);
  }

  torch::Tensor logits(const data::Batch& batch) override {
    if (batch.samples == 0) {
      return torch::zeros({0, shape_.sequence_length, shape_.vocabulary_size});
    }
    const torch::Tensor tokens = tokens_of(batch);
    const torch::Tensor inputs = tokens.narrow(1, 0, tokens.size(1) - 1);
    return forward(inputs).view({inputs.size(0), inputs.size(1), -1});
  }

  Losses loss(const data::Batch& batch, bool count_correct) override {
    Losses losses;
    if (batch.samples == 0) {
      losses.sum = torch::zeros({});
      return losses;
    }
    const torch::Tensor tokens = tokens_of(batch);
    const std::int64_t length = tokens.size(1) - 1;
    const torch::Tensor targets = tokens.narrow(1, 1, length).flatten();
    const torch::Tensor outputs = forward(tokens.narrow(1, 0, length));
    losses.units = targets.numel();
    losses.sum = at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Sum);
    if (count_correct) losses.correct = count_hits(outputs, targets);
    return losses;
  }

  std::vector<std::pair<std::string, torch::Tensor>> parameters() override {
    std::vector<std::pair<std::string, torch::Tensor>> all;
    const auto add = [&](const std::string& name, const auto& layer) {
      all.emplace_back("transformer." + name + ".weight", layer.weight);
      all.emplace_back("transformer." + name + ".bias", layer.bias);
    };
    all.emplace_back("transformer.wte.weight", wte_);
    all.emplace_back("transformer.wpe.weight", wpe_);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::string block = "h." + std::to_string(i);
      add(block + ".ln_1", blocks_[i].ln_1);
      add(block + ".attn.c_attn", blocks_[i].attn_c_attn);
      add(block + ".attn.c_proj", blocks_[i].attn_c_proj);
      add(block + ".ln_2", blocks_[i].ln_2);
      add(block + ".mlp.c_fc", blocks_[i].mlp_c_fc);
      add(block + ".mlp.c_proj", blocks_[i].mlp_c_proj);
    }
    add("ln_f", ln_f_);
    if (!spec_.tie_weights) all.emplace_back("lm_head.weight", head_);
    return all;
  }

  std::vector<std::pair<std::string, torch::Tensor>> export_tensors() override {
    return parameters();
  }

  nlohmann::json config() const override {
    return {{"model_type", "gpt2"},
            {"architectures", {"GPT2LMHeadModel"}},
            {"n_layer", spec_.layers},
            {"n_head", spec_.heads},
            {"n_embd", spec_.hidden},
            {"n_positions", shape_.sequence_length},
            {"n_ctx", shape_.sequence_length},
            {"vocab_size", shape_.vocabulary_size},
            {"activation_function", "gelu_new"},
            {"layer_norm_epsilon", kEpsilon},
            {"initializer_range", kInitial},
            {"attn_pdrop", 0.0},
            {"embd_pdrop", 0.0},
            {"resid_pdrop", 0.0},
            {"tie_word_embeddings", spec_.tie_weights},
            {"torch_dtype", "float32"}};
  }

  std::string sample(const std::string& prompt, std::int64_t tokens, std::uint64_t seed) override {
    constexpr std::int64_t kBytes = 256;
    if (shape_.vocabulary_size != kBytes) return "";  // not a byte-level model
    const torch::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(seed);
    // Without a prompt a line break stands for the beginning of a text.
    std::vector<std::int64_t> context;
    for (const char c : prompt.empty() ? std::string("\n") : prompt) {
      context.push_back(static_cast<unsigned char>(c));
    }
    std::string text;
    std::vector<Past> past;
    std::size_t known = 0;  // positions in `past`; the tokens from `begin` on are fed
    const auto window = static_cast<std::size_t>(shape_.sequence_length);
    std::size_t begin = context.size() - std::min(context.size(), window);
    for (std::int64_t i = 0; i < tokens; ++i) {
      // Positions are absolute: when the window is full, begin anew, half as far back.
      if (context.size() - begin > window) {
        begin = context.size() - std::max<std::size_t>(1, window / 2);
        known = 0;
      }
      if (known == 0) past.assign(blocks_.size(), {});
      const auto feed = torch::tensor(context).slice(0, static_cast<std::int64_t>(begin + known));
      const auto logits = forward(feed.unsqueeze(0), static_cast<std::int64_t>(known), &past)[-1];
      known = context.size() - begin;
      const auto next = at::multinomial(at::softmax(logits, -1), 1, false, generator);
      context.push_back(next.item<std::int64_t>());
      text.push_back(static_cast<char>(context.back()));
    }
    return text;
  }

 private:
  // tokens: [samples, length], at positions from `position` on. Returns logits [samples * length,
  // vocabulary]: everything between is kept as a matrix, so that each projection is one product.
  torch::Tensor forward(const torch::Tensor& tokens, std::int64_t position = 0,
                        std::vector<Past>* past = nullptr) const {
    const std::int64_t samples = tokens.size(0), length = tokens.size(1);
    torch::Tensor x = at::embedding(wte_, tokens) + wpe_.narrow(0, position, length);
    x = x.view({samples * length, spec_.hidden});
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      x = blocks_[i](x, samples, length, past == nullptr ? nullptr : &(*past)[i]);
    }
    return project(ln_f_(x), head_, WeightLayout::out_in);
  }

  Gpt2Spec spec_;
  data::Shape shape_;
  torch::Tensor wte_, wpe_, head_;
  std::vector<Block> blocks_;
  Norm ln_f_;
};

}  // namespace

Result<Gpt2Spec> read_gpt2_spec(const nlohmann::json& config) {
  ConfigReader reader("gpt2", config);
  Gpt2Spec spec;
  spec.layers = reader.integer("layers", spec.layers, 1);
  spec.heads = reader.integer("heads", spec.heads, 1);
  spec.hidden = reader.integer("hidden", spec.hidden, 1);
  spec.tie_weights = reader.boolean("tieWeights", spec.tie_weights);
  const double dropout = reader.number("dropout", 0);
  MUSTER_CHECK_OK(reader.finish());
  if (spec.hidden % spec.heads != 0) {
    return Error{Code::invalid_job,
                 "spec.model.builtin.config.hidden: must be a multiple of heads, "
                 "but " +
                     std::to_string(spec.hidden) + " is not one of " + std::to_string(spec.heads)};
  }
  if (dropout != 0) {
    return Error{Code::invalid_job,
                 "spec.model.builtin.config.dropout: must be 0 in this version; remove the field"};
  }
  return spec;
}

Result<std::unique_ptr<Model>> build_gpt2(const Gpt2Spec& spec, const data::Shape& shape) {
  if (shape.task != data::Task::language_model) {
    return Error{Code::invalid_job,
                 "spec.model.builtin.name: gpt2 needs text or tokens, but spec.data.format has "
                 "columns; use tabular or mlp"};
  }
  if (shape.vocabulary_size < 1 || shape.sequence_length < 1) {
    return Error{Code::invalid_data, "the data have no tokens: a vocabulary of " +
                                         std::to_string(shape.vocabulary_size) + ", sequences of " +
                                         std::to_string(shape.sequence_length)};
  }
  return std::unique_ptr<Model>(std::make_unique<Gpt2>(spec, shape));
}

}  // namespace muster::model
