#include "geores/portable/model.h"

#include <algorithm>

namespace geores::portable {
namespace {

int count_of(const Json& config, const char* key) {
  const auto* value = config.find(key);
  refuse_unless(value != nullptr && value->kind() == Json::Kind::number, "config",
                "{} must be a number", {quoted(key)});
  const double number = value->number();
  refuse_unless(number >= 1 && number <= 4096 && number == static_cast<int>(number), "config",
                "{} must be a whole number 1 ... 4096, got {}", {quoted(key), number});
  return static_cast<int>(number);
}

std::string_view connection_of(const Json& config) {
  for (const char* key : {"connection", "model"})
    if (const auto* value = config.find(key); value && value->kind() == Json::Kind::string)
      return value->string();
  refuse("config", "has no connection");
}

int extent(const Weights& weights, const Name& name, int axis) {
  const auto& shape = weights.shape(name);
  refuse_unless(
      shape.axes == 2 && shape[0] >= 1 && shape[0] <= 65536 && shape[1] >= 1 && shape[1] <= 65536,
      weights.where(), "tensor {} must have two axes of 1 ... 65536", {quoted(name)});
  return static_cast<int>(shape[axis]);
}

// The largest number of heads, at most `wanted`, that divides the width.
int heads_that_fit(int width, int wanted) {
  int heads = std::min(width, wanted);
  while (width % heads != 0) --heads;
  return heads;
}

Name block_name(int index) {
  Name name = "blocks.";
  int power = 1;
  while (index / power >= 10) power *= 10;
  for (; power > 0; power /= 10) name += static_cast<char>('0' + index / power % 10);
  return name + ".";
}

// The supported values of options that change the forward pass.
struct Only {
  const char *key, *value;
};
constexpr Only kOnly[] = {
    {"attention", "causal"}, {"positions", "learned"},     {"mlp", "gelu"},
    {"read_norm", "layer"},  {"generator_norm", "affine"}, {"reflection", "streams"},
    {"past", "none"},        {"input_map", "learned"},     {"output_length", "free"}};

}  // namespace

Model::Ends Model::folded(const ConnectionSource& source, Ends ends, const Name& maps,
                          const Connection& connection) {
  // A model's own maps are inside of those of its connection.
  const auto own = [&](const char* name, int rows, int columns) {
    return Linear{rows, columns, source.read(maps + name, rows, columns)};
  };
  const int width = traits_.sublayer_width;
  const auto side =
      source.text("maps", "none") == "none" ? "none" : source.text("maps_side", "both");
  if (side == "both" || side == "before")
    ends.first = ends.first.after(own("pre", ends.first.columns, width), arena_);
  if (side == "both" || side == "after")
    ends.last = own("post", width, ends.last.rows).after(ends.last, arena_);
  if (connection.before()) ends.first = ends.first.after(*connection.before(), arena_);
  if (connection.after()) ends.last = connection.after()->after(ends.last, arena_);
  refuse_unless(ends.first.columns == width && ends.last.rows == width, "model",
                "a branch of another width needs two maps");
  return ends;
}

Model::Model(const Weights& weights, const Json& config) {
  refuse_unless(!weights.contains("embedding"), "model",
                "predicts tokens; live predictions are of vectors");
  const auto connection = connection_of(config);
  for (const auto& only : kOnly) {
    const auto* value = config.find(only.key);
    refuse_unless(value == nullptr || value->string() == only.value, "model",
                  "{} is {}: live predictions have {} only",
                  {only.key, quoted(value ? value->string() : ""), only.value});
  }
  const Source source{weights, arena_};
  layers_ = count_of(config, "layers");
  width_ = count_of(config, "width");
  streams_ = count_of(config, "streams");
  context_ = extent(weights, "positions", 0);
  positions_ = source.read("positions", context_, width_);
  input_ = Linear::read(source, "input", width_, extent(weights, "input.weight", 1), true);
  output_ = Linear::read(source, "output", input_.columns, width_, true);
  final_norm_ = LayerNorm::read(source, "final_norm", width_, false);
  halves_ = static_cast<Half*>(arena_.bytes(2 * layers_, sizeof(Half)));

  for (int i = 0; i < layers_; ++i) {
    const auto block = block_name(i);
    for (const bool mlp : {false, true}) {
      const ConnectionSource of_connection{
          source, config,   block + (mlp ? "mlp_residual" : "attention_residual"),
          width_, streams_, context_};
      traits_ = traits_of(connection, of_connection);
      auto& half = halves_[2 * i + mlp];
      half.connection = make_connection(connection, of_connection);
      const auto names =
          mlp ? std::pair("mlp.up", "mlp.down") : std::pair("attention.qkv", "attention.out");
      // The width of the branch, which maps can make another than the connection's.
      const int inner = extent(weights, block + names.second + ".weight", 0);
      const auto [first, last] =
          folded(of_connection,
                 {Linear::read(source, block + names.first, (mlp ? 4 : 3) * inner, inner, false),
                  Linear::read(source, block + names.second, inner, (mlp ? 4 : 1) * inner, false)},
                 block + (mlp ? "mlp_maps." : "attention_maps."), *half.connection);
      half.sublayer = mlp ? static_cast<Sublayer*>(arena_.make<Mlp>(first, last, arena_))
                          : arena_.make<Attention>(first, last,
                                                   heads_that_fit(inner, count_of(config, "heads")),
                                                   context_, arena_);
    }
  }
  states_ = arena_.doubles(static_cast<std::size_t>(context_) * traits_.state_width);
  read_ = arena_.doubles(static_cast<std::size_t>(context_) * traits_.sublayer_width);
  answer_ = arena_.doubles(traits_.sublayer_width);
  embedded_ = arena_.doubles(width_);
}

void Model::pass(Half& half, int from, int to) {
  half.connection->look(states_, from, to);
  for (int t = from; t < to; ++t) {
    double* state = states_ + static_cast<std::size_t>(t) * traits_.state_width;
    double* read = read_ + static_cast<std::size_t>(t) * traits_.sublayer_width;
    half.connection->read(t, state, read);
    half.sublayer->apply(t, read, answer_);
    half.connection->write(t, answer_, state);
  }
}

void Model::forward(const double* x, int from, int to, double* y) {
  refuse_unless(from >= 0 && from < to && to <= context_, "model",
                "positions {} ... {} are not in the context of {}", {from, to - 1, context_});
  refuse_unless(traits_.causal || from == 0, "model",
                "sees whole sequences: cannot go on from position {}", {from});
  const int copies = traits_.state_width / width_;
  for (int t = from; t < to; ++t) {
    input_.apply(x + static_cast<std::size_t>(t - from) * input_.columns, embedded_);
    double* state = states_ + static_cast<std::size_t>(t) * traits_.state_width;
    for (int copy = 0; copy < copies; ++copy)
      for (int i = 0; i < width_; ++i)
        state[copy * width_ + i] =
            embedded_[i] + positions_[static_cast<std::size_t>(t) * width_ + i];
  }
  for (int i = 0; i < operators(); ++i) pass(halves_[i], from, to);
  for (int t = from; t < to; ++t) {
    double* state = states_ + static_cast<std::size_t>(t) * traits_.state_width;
    for (int copy = 1; copy < copies; ++copy)
      for (int i = 0; i < width_; ++i) state[i] += state[copy * width_ + i];
    final_norm_.apply(state, embedded_);
    output_.apply(embedded_, y + static_cast<std::size_t>(t - from) * output_.rows);
  }
}

Probe Model::probe(int op, int position) const { return halves_[op].connection->probe(position); }

}  // namespace geores::portable
