#include "geores/residual/ddl/ddl.h"

#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/streams/streams.h"

namespace geores {

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

Tensor Ddl::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  const auto seen = read_.matmul(x);                          // (B, T, C)
  const auto k = normalize(f(norm_->forward(seen)));          // (B, T, C)
  const auto beta = 2 * torch::sigmoid(beta_(seen));          // (B, T, 1)
  const auto written = value_(seen);                          // (B, T, n)
  const auto erased = x.matmul(k.unsqueeze(-1)).squeeze(-1);  // kᵀX (B, T, n)
  trace.probe("beta", [&] { return beta; });
  trace.probe("operator", [&] {
    return identity_like(k, k.size(-1)) - beta.unsqueeze(-1) * k.unsqueeze(-1) * k.unsqueeze(-2);
  });
  return x + spread_to_streams(beta * (written - erased), k);
}

Connection ddl_connection() {
  return describe_connection<Ddl, NoOptions>(
      {.name = "ddl",
       .summary = "delta rule: erase along k = F(x) and write, matrix-valued state",
       .paper = "MGT Eqs. 4, 16 (deep delta learning)"});
}

}  // namespace geores
