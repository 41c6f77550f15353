#include "geores/residual/routed_step.h"

#include "geores/ops/inference/into.h"
#include "geores/ops/inference/step_routes.h"

namespace geores {
namespace {

// Computes raw values from the state: each row of this many values is normalized and projected
// separately.
struct Projection {
  LinearMap map;  // undefined: routes are fixed
  NormSpec norm{.layer = false};
  int64_t row = 0;
};

class RoutedStep final : public TokenStep {
 public:
  RoutedStep(StepRoutes routes, Projection projection, const Tensor& read_weight, int64_t width,
             int64_t batch)
      : routes_(std::move(routes)),
        projection_(std::move(projection)),
        read_weight_(read_weight.detach().contiguous()),
        read_(buffer(batch, read_weight.numel())),
        mixed_(buffer(batch, width)) {
    if (!projection_.map.weight.defined()) return;
    normalized_ = buffer(batch, width);
    rows_ = normalized_.view({-1, projection_.row});
    raw_ = buffer(rows_.size(0), projection_.map.weight.size(0));
  }

  const Tensor& read(const Tensor& x) override {
    if (raw_.defined()) {
      into::normalize(x, projection_.row, projection_.norm, normalized_);
      into::linear(rows_, projection_.map.weight, projection_.map.bias, raw_);
      routes_.update(raw_);
    }
    into::collect_and_norm(routes_.read, x, read_weight_, read_);
    return read_;
  }

  void write(const Tensor& y, Tensor& x) override {
    into::mix_and_write(routes_.res, x, routes_.write, y, mixed_);
    into::copy(mixed_, x);
  }

 private:
  Tensor buffer(int64_t rows, int64_t width) const {
    return torch::zeros({rows, width}, read_weight_.options());
  }

  StepRoutes routes_;
  Projection projection_;
  Tensor read_weight_;
  Tensor read_, mixed_;
  // rows_ views normalized_ by projected rows. All are undefined if routes are fixed.
  Tensor normalized_, rows_, raw_;
};

}  // namespace

std::unique_ptr<TokenStep> make_routed_step(const RoutedSpec& spec, int64_t batch) {
  torch::NoGradGuard no_grad;
  const auto packed = side_by_side(spec.projections);
  auto routes = StepRoutes::make(spec.routing, spec.streams, batch, packed.weight);
  if (!routes) return nullptr;
  const auto map = folded_into(spec.norm, packed.weight, packed.bias);
  const auto width = packed.weight.size(1);
  return std::make_unique<RoutedStep>(std::move(*routes),
                                      Projection{.map = map, .norm = spec.norm, .row = width},
                                      spec.read_weight, width, batch);
}

std::unique_ptr<TokenStep> make_routed_step(const TanhRoutedSpec& spec, int64_t batch) {
  torch::NoGradGuard no_grad;
  auto routes = StepRoutes::of_tanh(spec.routes, batch);
  if (!routes) return nullptr;
  const auto d = spec.pre.size(1), width = routes->read.size(1) * d;
  return std::make_unique<RoutedStep>(
      std::move(*routes),
      Projection{.map = {.weight = torch::cat({spec.pre, spec.res, spec.post}), .bias = {}},
                 .norm = {.layer = false, .epsilon = spec.epsilon},
                 .row = d},
      spec.read_weight, width, batch);
}

std::unique_ptr<TokenStep> make_fixed_step(const Routes& routes, const Tensor& read_weight,
                                           int64_t batch) {
  auto fixed = StepRoutes::fixed(routes, batch);
  if (!fixed) return nullptr;
  return std::make_unique<RoutedStep>(std::move(*fixed), Projection{}, read_weight,
                                      routes.read.numel() * read_weight.numel(), batch);
}

}  // namespace geores
