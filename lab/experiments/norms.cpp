#include "lab/experiments/norms.h"

#include <algorithm>
#include <cmath>

#include "geores/modules/seeding.h"
#include "geores/train/device/recorded_work.h"

namespace geores {
namespace {

Tensor predict(Model& model, const Tensor& x) {
  Trace trace;
  return model.predict(x, trace);
}

double deviation(Model& model, const Tensor& x) {
  const auto ratio = predict(model, x).norm(2, -1) / x.norm(2, -1);
  return (ratio - 1).abs().mean().item<double>();
}

// 1, 2, 5, 10, 20, 50, ...
bool is_recorded(int64_t step) {
  while (step % 10 == 0) step /= 10;
  return step == 1 || step == 2 || step == 5;
}

nlohmann::json roll_out(Model& model, const Tensor& start, int64_t steps) {
  const auto key = start.mean(1);
  const auto window = start.clone(), next = torch::empty_like(key);
  RecordedWork work(start.device(), [&] {
    next.copy_(predict(model, window).select(1, -1));
    window.copy_(torch::cat({window.slice(1, 1), next.unsqueeze(1)}, 1));
  });
  auto lines = nlohmann::json::array();
  for (int64_t step = 1; step <= steps; ++step) {
    work.run();
    if (!is_recorded(step) && step != steps) continue;
    lines.push_back({{"step", step},
                     {"norm", next.norm(2, -1).mean().item<double>()},
                     {"error", (next - key).square().mean().item<double>()}});
  }
  return lines;
}

}  // namespace

nlohmann::json measure_norms(Model& model, const Dataset& data, const NormConfig& config) {
  torch::NoGradGuard no_grad;
  const auto device = model.parameters().front().device();
  const OwnCudaStream cuda_stream(device);
  const auto length = std::min(config.random_length, data.length());
  auto random = with_seed(0, [&] {
    return torch::randn({config.random_sequences, length, data.input_width()});
  });
  random = random / random.norm(2, -1, /*keepdim=*/true);
  const auto validation = data.validation_x.slice(0, 0, 200).to(device);
  const auto start = validation.slice(0, 0, config.rollouts).slice(1, 0, config.window);
  return {{"random", deviation(model, random.to(device))},
          {"validation", deviation(model, validation)},
          {"rollout", roll_out(model, start, config.rollout_steps)}};
}

double running_mean_deviation(int64_t length) {
  double sum = 0;
  for (int64_t t = 1; t <= length; ++t) sum += 1 / std::sqrt(static_cast<double>(t));
  return 1 - sum / static_cast<double>(length);
}

}  // namespace geores
