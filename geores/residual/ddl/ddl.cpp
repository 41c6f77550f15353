#include "geores/residual/ddl/ddl.h"

#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/inference/into.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/routed/projected.h"
#include "geores/ops/streams/streams.h"
#include "geores/ops/updates/delta.h"

namespace geores {
namespace {

class DdlStep final : public TokenStep {
 public:
  // map: β's logit and v (1 + n, d).
  DdlStep(const Tensor& read, const Tensor& norm, const LinearMap& map, int64_t batch)
      : read_(read.detach()),
        norm_(norm.detach()),
        map_(map),
        seen_(torch::zeros({batch, norm.numel()}, norm_.options())),
        normalized_(torch::zeros_like(seen_)),
        raw_(torch::zeros({batch, map.weight.size(0)}, norm_.options())) {}

  const Tensor& read(const Tensor& x) override {
    into::collect(read_, x, seen_);
    into::layer_norm(seen_, norm_, normalized_);
    return normalized_;
  }

  void write(const Tensor& y, Tensor& x) override {
    into::linear(seen_, map_.weight, map_.bias, raw_);
    into::delta_write(raw_, y, x);
  }

 private:
  Tensor read_, norm_;
  LinearMap map_;
  Tensor seen_, normalized_, raw_;
};

}  // namespace

Ddl::Ddl(const ResidualConfig& config, const NoOptions&)
    : traits_{.layout = StreamLayout::expand,
              .streams = config.streams,
              .state_width = config.streams * config.width,
              .sublayer_width = config.width,
              .axis = OperatorAxis::width} {
  require_streams(config, traits_.layout, "ddl");
  const auto n = config.streams;
  norm_ = register_module("norm", std::make_shared<LayerNorm>(config.width));
  read_ = register_parameter("read", torch::full({n}, 1.0 / static_cast<double>(n)));
  beta_ = register_module("beta", make_linear(config.width, 1, true, 0.0));
  value_ = register_module("value", make_linear(config.width, n, true));
}

// β's logit and v (B, T, 1 + n).
Tensor Ddl::logit_and_value(const Tensor& seen) const {
  return linear_maps(seen, {{beta_->weight, beta_->bias}, {value_->weight, value_->bias}});
}

std::unique_ptr<TokenStep> Ddl::token_step(int64_t batch) const {
  torch::NoGradGuard no_grad;
  return std::make_unique<DdlStep>(read_, norm_->weight(),
                                   side_by_side({{beta_->weight, beta_->bias, Tensor()},
                                                 {value_->weight, value_->bias, Tensor()}}),
                                   batch);
}

Tensor Ddl::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  if (!trace.probing())
    if (auto delta = DeltaStreams::make({.weight = read_,
                                         .norm_weight = norm_->weight(),
                                         .beta = beta_->weight,
                                         .beta_bias = beta_->bias,
                                         .value = value_->weight,
                                         .value_bias = value_->bias},
                                        x))
      return delta->write(f(delta->read()));
  auto delta = DeltaStreams::make(read_, x);
  const auto [normalized, seen] =
      norm_->forward_and_skip(delta ? delta->read() : read_.matmul(x));  // (B, T, C)
  const auto y = f(normalized);                                          // (B, T, C)
  const auto l = logit_and_value(seen);
  const auto beta = [&] { return 2 * torch::sigmoid(l.slice(-1, 0, 1)); };  // (B, T, 1)
  const auto direction = [&] { return normalize(y.to(x.scalar_type())); };
  trace.probe("beta", beta);
  trace.probe("operator", [&] {
    const auto k = direction();
    return identity_like(k, k.size(-1)) - beta().unsqueeze(-1) * k.unsqueeze(-1) * k.unsqueeze(-2);
  });
  if (delta) return delta->write(y, l);
  const auto k = direction();
  const auto written = l.slice(-1, 1);                        // v (B, T, n)
  const auto erased = x.matmul(k.unsqueeze(-1)).squeeze(-1);  // kᵀX (B, T, n)
  return x + spread_to_streams(beta() * (written - erased), k);
}

Connection ddl_connection() {
  return describe_connection<Ddl, NoOptions>(
      {.name = "ddl",
       .summary = "delta rule: erase along k = F(x) and write, matrix-valued state",
       .paper = "MGT Eqs. 4, 16 (deep delta learning)",
       .has_token_step = always});
}

}  // namespace geores
