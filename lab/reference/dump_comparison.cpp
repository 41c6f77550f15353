#include "lab/reference/dump_comparison.h"

#include <fmt/ranges.h>

#include "geores/base/error.h"
#include "geores/train/optimizer/schedule.h"

namespace geores {

namespace {

Tensor read_part(Dump& dump, const std::string& folder, const DumpedParameter& p) {
  const auto value = p.part(dump.read(folder + "/" + p.tensor));
  require(value.sizes() == p.parameter.sizes(), dump.name(),
          "tensor '{}/{}' gives a parameter of shape [{}], expected [{}]", folder, p.tensor,
          fmt::join(value.sizes(), ", "), fmt::join(p.parameter.sizes(), ", "));
  return value;
}

}  // namespace

void load_parameters(Dump& dump, const DumpedParameters& parameters) {
  const torch::NoGradGuard no_grad;
  for (const auto& p : parameters) p.parameter.copy_(read_part(dump, "param", p));
}

GroupError compare_parameters(Dump& dump, const DumpedParameters& parameters,
                              const std::string& folder, double limit,
                              const std::function<Tensor(const Tensor&)>& ours) {
  Group group(folder, limit);
  for (const auto& p : parameters)
    group.compare(folder + "/" + p.tensor, ours(p.parameter), read_part(dump, folder, p));
  return group.result();
}

GroupError compare_tensor(Dump& dump, const std::string& tensor, const Tensor& ours) {
  Group group(tensor, kLimit);
  group.compare(tensor, ours, dump.read(tensor, ours.sizes()));
  return group.result();
}

void verify_training(Dump& dump, TrainingStep& training, const DumpedParameters& parameters,
                     const std::string& loss, const std::vector<int64_t>& batch, Dtype dtype,
                     Verification& result) {
  const auto x = dump.read("train/x", dtype), y = dump.read("train/y", dtype);
  require(x.dim() == static_cast<int64_t>(batch.size()) + 1 &&
              x.sizes().slice(1) == at::IntArrayRef(batch),
          dump.name(), "tensor 'train/x' has shape [{}], expected [steps, {}]",
          fmt::join(x.sizes(), ", "), fmt::join(batch, ", "));
  require(y.sizes() == x.sizes(), dump.name(),
          "tensor 'train/y' has shape [{}], expected that of train/x", fmt::join(y.sizes(), ", "));
  const auto steps = x.size(0);
  require(steps >= 1, dump.name(), "tensor 'train/x' holds no steps");
  const Schedule schedule{.peak = 1e-3, .floor = 1e-4, .warmup = 3, .total = steps};
  std::vector<Tensor> losses, norms;
  for (int64_t step = 0; step < steps; ++step) {
    const auto done = training.run(x[step], y[step], schedule.at(step));
    losses.push_back(done.loss);
    norms.push_back(done.gradient_norm);
  }
  result.groups.push_back(compare_tensor(dump, "train/" + loss, torch::stack(losses)));
  result.groups.push_back(compare_tensor(dump, "train/grad_norm", torch::stack(norms)));
  result.groups.push_back(
      compare_parameters(dump, parameters, "after", kLimitAfterTraining,
                         [](const Tensor& parameter) { return parameter.detach(); }));
}

}  // namespace geores
