#include "geores/portable/model.h"

#include <algorithm>

#include "geores/base/refusal.h"

namespace geores::portable {
namespace {

int count_of(const Json& config, std::string_view key) {
  const auto* value = config.find(key);
  refuse_unless(value != nullptr && value->kind() == Json::Kind::number, "config",
                "{} must be a number", quote(key));
  const double number = value->number();
  refuse_unless(number >= 1 && number <= 4096 && number == static_cast<int>(number), "config",
                "{} must be a whole number 1 ... 4096, got {}", quote(key), number);
  return static_cast<int>(number);
}

std::string connection_of(const Json& config) {
  for (const char* key : {"connection", "model"})
    if (const auto* value = config.find(key); value && value->kind() == Json::Kind::string)
      return value->string();
  refuse("config", "has no connection");
}

int extent(const Weights& weights, const std::string& name, std::size_t axis) {
  const auto& shape = weights.shape(name);
  refuse_unless(
      shape.size() == 2 && shape[0] >= 1 && shape[0] <= 65536 && shape[1] >= 1 && shape[1] <= 65536,
      weights.where(), "tensor {} must have two axes of 1 ... 65536", quote(name));
  return static_cast<int>(shape[axis]);
}

// The largest number of heads, at most `wanted`, that divides the width.
int heads_that_fit(int width, int wanted) {
  int heads = std::min(width, wanted);
  while (width % heads != 0) --heads;
  return heads;
}

}  // namespace

Model::Model(const Weights& weights, const Json& config) {
  refuse_unless(!weights.contains("embedding"), "model",
                "predicts tokens; live predictions are for models of vectors");
  const auto connection = connection_of(config);
  for (const auto& [key, only] :
       {std::pair("attention", "causal"), std::pair("positions", "learned"),
        std::pair("mlp", "gelu"), std::pair("maps", "none"), std::pair("read_norm", "layer"),
        std::pair("generator_norm", "affine"), std::pair("reflection", "streams")}) {
    const auto* value = config.find(key);
    refuse_unless(value == nullptr || value->string() == only, "model",
                  "{} is {}: live predictions have {} only", key,
                  quote(value ? value->string() : ""), only);
  }
  const int layers = count_of(config, "layers"), heads = count_of(config, "heads");
  width_ = count_of(config, "width");
  streams_ = count_of(config, "streams");
  context_ = extent(weights, "positions", 0);
  positions_ = weights.read("positions", {context_, width_});
  input_ = Linear::read(weights, "input", width_, extent(weights, "input.weight", 1), true);
  output_ = Linear::read(weights, "output", input_.columns, width_, true);
  final_norm_ = LayerNorm::read(weights, "final_norm", width_, false);

  for (int i = 0; i < layers; ++i) {
    const auto block = "blocks." + std::to_string(i) + ".";
    const auto place = [&](const char* half) {
      return Place{weights, config, block + half, width_, streams_, context_};
    };
    traits_ = traits_of(connection, place("attention_residual"));
    const int width = traits_.sublayer_width;
    const auto folded = [&](Linear first, Linear last, const Connection& around) {
      if (around.before()) first = first.after(*around.before());
      if (around.after()) last = around.after()->after(last);
      return std::pair(std::move(first), std::move(last));
    };
    Block made;
    made.attention.connection = make_connection(connection, place("attention_residual"));
    made.mlp.connection = make_connection(connection, place("mlp_residual"));
    auto [qkv, out] =
        folded(Linear::read(weights, block + "attention.qkv", 3 * width, width, false),
               Linear::read(weights, block + "attention.out", width, width, false),
               *made.attention.connection);
    made.attention.sublayer = std::make_unique<Attention>(std::move(qkv), std::move(out),
                                                          heads_that_fit(width, heads), context_);
    auto [up, down] = folded(Linear::read(weights, block + "mlp.up", 4 * width, width, false),
                             Linear::read(weights, block + "mlp.down", width, 4 * width, false),
                             *made.mlp.connection);
    made.mlp.sublayer = std::make_unique<Mlp>(std::move(up), std::move(down));
    blocks_.push_back(std::move(made));
  }
  states_.resize(static_cast<std::size_t>(context_) * traits_.state_width);
  read_.resize(static_cast<std::size_t>(context_) * traits_.sublayer_width);
  answer_.resize(traits_.sublayer_width);
  embedded_.resize(width_);
}

void Model::pass(Half& half, int from, int to) {
  half.connection->look(states_.data(), from, to);
  for (int t = from; t < to; ++t) {
    double* state = states_.data() + static_cast<std::size_t>(t) * traits_.state_width;
    double* read = read_.data() + static_cast<std::size_t>(t) * traits_.sublayer_width;
    half.connection->read(t, state, read);
    half.sublayer->apply(t, read, answer_.data());
    half.connection->write(t, answer_.data(), state);
  }
}

void Model::forward(const double* x, int from, int to, double* y) {
  refuse_unless(from >= 0 && from < to && to <= context_, "model",
                "positions {} ... {} do not lie in the context of {}", from, to - 1, context_);
  refuse_unless(traits_.causal || from == 0, "model",
                "sees a whole sequence at once: it cannot go on from position {}", from);
  const int copies = traits_.state_width / width_;
  for (int t = from; t < to; ++t) {
    input_.apply(x + static_cast<std::size_t>(t - from) * input_.columns, embedded_.data());
    double* state = states_.data() + static_cast<std::size_t>(t) * traits_.state_width;
    for (int copy = 0; copy < copies; ++copy)
      for (int i = 0; i < width_; ++i)
        state[copy * width_ + i] =
            embedded_[i] + positions_[static_cast<std::size_t>(t) * width_ + i];
  }
  for (auto& block : blocks_) {
    pass(block.attention, from, to);
    pass(block.mlp, from, to);
  }
  for (int t = from; t < to; ++t) {
    double* state = states_.data() + static_cast<std::size_t>(t) * traits_.state_width;
    for (int copy = 1; copy < copies; ++copy)
      for (int i = 0; i < width_; ++i) state[i] += state[copy * width_ + i];
    final_norm_.apply(state, embedded_.data());
    output_.apply(embedded_.data(), y + static_cast<std::size_t>(t - from) * output_.rows);
  }
}

Probe Model::probe(int op, int position) const {
  const auto& block = blocks_[op / 2];
  return (op % 2 == 0 ? block.attention : block.mlp).connection->probe(position);
}

}  // namespace geores::portable
