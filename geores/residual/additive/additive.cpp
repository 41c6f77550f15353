#include "geores/residual/additive/additive.h"

#include <cmath>

#include "geores/ops/inference/into.h"

namespace geores {
namespace {

class AdditiveStep final : public TokenStep {
 public:
  AdditiveStep(const Tensor& weight, double branch_factor, int64_t batch)
      : weight_(weight.detach()),
        branch_factor_(branch_factor),
        normalized_(torch::empty({batch, weight.numel()}, weight_.options())) {}

  const Tensor& read(const Tensor& x) override {
    into::layer_norm(x, weight_, normalized_);
    return normalized_;
  }
  void write(const Tensor& y, Tensor& x) override { into::add(x, y, branch_factor_); }

 private:
  Tensor weight_;
  double branch_factor_;
  Tensor normalized_;
};

// Post-norm: x ← LN(x + F(x)).
class PostNormStep final : public TokenStep {
 public:
  PostNormStep(const Tensor& weight, double branch_factor, int64_t batch)
      : weight_(weight.detach()),
        branch_factor_(branch_factor),
        sum_(torch::empty({batch, weight.numel()}, weight_.options())) {}

  const Tensor& read(const Tensor& x) override {
    into::copy(x, sum_);
    return sum_;
  }
  void write(const Tensor& y, Tensor& x) override {
    into::add(sum_, y, branch_factor_);
    into::layer_norm(sum_, weight_, x);
  }

 private:
  Tensor weight_;
  double branch_factor_;
  Tensor sum_;
};

}  // namespace

Fields AdditiveOptions::fields() {
  return Fields()
      .choice("norm", norm, {"pre", "post"}, "position of the LayerNorm")
      .add("branch_power", branch_power, "the branch of the l-th connection is divided by l^p",
           {.min = 0, .max = 2});
}

Additive::Additive(const ResidualConfig& config, const AdditiveOptions& options)
    : pre_norm_(options.norm == "pre"),
      branch_factor_(std::pow(static_cast<double>(config.index + 1), -options.branch_power)),
      traits_{.state_width = config.width,
              .sublayer_width = config.width,
              .orthogonal = pre_norm_,
              .initial_map = pre_norm_ ? InitialMap::identity : InitialMap::other} {
  require_streams(config, traits_.layout, "additive");
  norm_ = register_module("norm", std::make_shared<LayerNorm>(config.width));
}

Tensor Additive::branch(const Sublayer& f, const Tensor& h) const {
  const auto y = f(h);
  return branch_factor_ == 1 ? y : y * branch_factor_;
}

State Additive::advance(const State& state, const Sublayer& f, Trace& trace) {
  if (!pre_norm_) {
    const auto x = state.total();
    return norm_->forward(x + branch(f, x));
  }
  trace.probe("operator", [&] { return torch::ones({1, 1, 1, 1}, state.x.options()); });
  const auto [normalized, skip] = norm_->forward_and_skip(state);
  return with_branch(skip, branch(f, normalized));
}

std::unique_ptr<TokenStep> Additive::token_step(int64_t batch) const {
  if (!pre_norm_) return std::make_unique<PostNormStep>(norm_->weight(), branch_factor_, batch);
  return std::make_unique<AdditiveStep>(norm_->weight(), branch_factor_, batch);
}

Connection additive_connection() {
  return describe_connection<Additive, AdditiveOptions>(
      {.name = "additive",
       .summary = "x + F(LN(x)): the plain transformer, pre- or post-norm",
       .paper = "GPT-2; Vaswani et al. 2017",
       .variants = {{{"norm", "pre"}}, {{"norm", "post"}}, {{"branch_power", 0.5}}},
       .has_token_step = always});
}

}  // namespace geores
