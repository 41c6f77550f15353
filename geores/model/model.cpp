#include "geores/model/model.h"

#include <algorithm>

#include "geores/base/config.h"
#include "geores/base/error.h"
#include "geores/base/nearest.h"

namespace geores {
namespace {

Fields fields_of(InputShape& shape) {
  return Fields()
      .add("length", shape.length, "positions of a sequence", {.min = 1})
      .add("width", shape.width, "values of a vector", {.min = 1})
      .add("vocabulary", shape.vocabulary, "token ids; 0: vectors", {.min = 0})
      .add("spare_positions", shape.spare_positions, "positions beyond the length", {.min = 0});
}

}  // namespace

nlohmann::json InputShape::to_json() const {
  auto copy = *this;
  return fields_of(copy).write();
}

InputShape InputShape::from_json(const nlohmann::json& object, const std::string& where) {
  InputShape shape;
  fields_of(shape).read(object, where);
  return shape;
}

Objective Model::evaluate(const Batch& batch) {
  const torch::NoGradGuard no_grad;
  Trace trace;
  const auto loss = task_loss(predict(batch.x, trace), batch.y);
  return {loss, [y = batch.y] { return scored_terms(y); }};
}

Tensor Model::weighted_loss(const Batch& batch, const Tensor& weights) {
  return evaluate(batch).mean().to(torch::kFloat64) * weights.sum();
}

const std::vector<std::string>& recompute_names() {
  static const std::vector<std::string> names = {"none", "blocks", "connections"};
  return names;
}

Recompute recompute_from(const std::string& name) {
  const auto& names = recompute_names();
  const auto found = std::find(names.begin(), names.end(), name);
  require(found != names.end(), "model", "unknown checkpoint '{}'{}", name,
          did_you_mean(name, names));
  return static_cast<Recompute>(found - names.begin());
}

void Model::set_recompute(Recompute what) {
  require(what == Recompute::nothing, "model",
          "checkpoint = {}: this kind of model has no blocks to recompute",
          recompute_names()[static_cast<size_t>(what)]);
}

std::unique_ptr<Decoder> Model::decoder(int64_t) {
  fail("model", "this kind of model cannot read one position at a time");
}

int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace geores
