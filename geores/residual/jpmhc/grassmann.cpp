#include "geores/residual/jpmhc/grassmann.h"

#include <vector>

#include "geores/ops/mixers/hybrid.h"

namespace geores {
namespace {

constexpr double kMomentum = 0.9, kVarianceDecay = 0.999, kEpsilon = 1e-8;
constexpr int kRetractionIterations = 2;

Tensor horizontal(const Tensor& u, const Tensor& direction) {
  return direction - u.matmul(u.t().matmul(direction));
}

}  // namespace

Tensor orthonormal_factor(const Tensor& a) {
  std::vector<Tensor> columns;
  for (auto column : a.unbind(-1)) {
    for (int pass = 0; pass < 2; ++pass)
      for (const auto& earlier : columns)
        column = column - earlier * (earlier * column).sum(-1, /*keepdim=*/true);
    columns.push_back(normalize(column));
  }
  return torch::stack(columns, -1);
}

// Drawn in double, so that it is orthonormal in whatever type the model is used.
Tensor random_subspace(int64_t n) {
  return orthonormal_factor(torch::randn({n, n / 2}, torch::kFloat64)).to(torch::kFloat32);
}

Tensor projector_onto(const Tensor& z) {
  const auto u = orthonormal_factor(z);
  return u.matmul(u.transpose(-1, -2));
}

GrassmannSteps::GrassmannSteps(torch::nn::Module& owner, const Tensor& u, double step_size)
    : step_size_(step_size),
      momentum_(owner.register_buffer("momentum", torch::zeros(u.sizes()))),
      variance_(owner.register_buffer("variance", torch::zeros({1}))),
      steps_(owner.register_buffer("steps", torch::zeros({1}))) {}

void GrassmannSteps::step(Tensor& u) {
  if (!u.grad().defined()) return;
  torch::NoGradGuard no_grad;
  const auto gradient = horizontal(u, u.grad());
  steps_.add_(1);
  momentum_.copy_(horizontal(u, kMomentum * momentum_ + (1 - kMomentum) * gradient));
  variance_.mul_(kVarianceDecay).add_((1 - kVarianceDecay) * gradient.square().mean());
  const auto variance = variance_ / (1 - torch::pow(kVarianceDecay, steps_));
  const auto direction =
      -momentum_ / (1 - torch::pow(kMomentum, steps_)) / (variance.sqrt() + kEpsilon);

  const auto w = direction.matmul(u.t()) - u.matmul(direction.t());
  auto y = u + step_size_ * direction;
  for (int i = 0; i < kRetractionIterations; ++i) y = u + 0.5 * step_size_ * w.matmul(u + y);
  u.copy_(orthonormal_factor(y));
}

}  // namespace geores
