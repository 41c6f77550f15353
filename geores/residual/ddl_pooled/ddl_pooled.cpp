#include "geores/residual/ddl_pooled/ddl_pooled.h"

#include "geores/base/error.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/streams/streams.h"

namespace geores {

Fields DdlPooledOptions::fields() {
  return Fields()
      .choice("pool", pool, pool_names(),
              "what k and β see: all of the sequence (not causal), the past, or the token")
      .add("hidden_ratio", hidden_ratio, "width over hidden width of the perceptrons", {.min = 1});
}

DdlPooled::DdlPooled(const ResidualConfig& config, const DdlPooledOptions& options)
    : pool_(pool_from(options.pool)),
      traits_{.state_width = config.width,
              .sublayer_width = config.width,
              .axis = OperatorAxis::width,
              .causal = pool_ != Pool::sequence} {
  require_streams(config, traits_.layout, "ddl_pooled");
  const auto width = config.width, hidden = width / options.hidden_ratio;
  require(hidden >= 1, "ddl_pooled", "hidden_ratio {} gives no hidden unit at width {}",
          options.hidden_ratio, width);
  norm_ = register_module("norm", std::make_shared<LayerNorm>(width));
  k_ = register_module("k", std::make_shared<Perceptron>(width, hidden, width));
  beta_ = register_module("beta", std::make_shared<Perceptron>(width, hidden, 1));
}

SequenceErase DdlPooled::erasure(const State& state, Trace& trace) {
  if (pool_ == Pool::sequence)
    if (const auto fused = fused_sequence_erase(state, {k_->weights(), beta_->weights()}))
      return *fused;
  const auto x = state.total();
  const auto summary = pooled(x, pool_, trace.memory());  // (B, T', D)
  return {.k = normalize(k_->forward(summary)),
          .beta = 2 * torch::sigmoid(beta_->forward(summary)),
          .skip = x};
}

State DdlPooled::advance(const State& state, const Sublayer& f, Trace& trace) {
  if (pool_ != Pool::sequence && !trace.probing() && trace.memory() == nullptr)
    if (const auto fused =
            fused_token_erase(state, pool_, {k_->weights(), beta_->weights()}, norm_->weight()))
      return with_branch(fused->skip, f(fused->normalized));
  const auto [k, beta, x] = erasure(state, trace);
  trace.probe("beta", [&] { return beta; });
  trace.probe("operator", [&] {
    return identity_like(k, k.size(-1)) - beta.unsqueeze(-1) * k.unsqueeze(-1) * k.unsqueeze(-2);
  });
  const auto [normalized, g] = erase_and_norm(k, beta, x, norm_->weight());
  return with_branch(g, f(normalized));
}

Connection ddl_pooled_connection() {
  return describe_connection<DdlPooled, DdlPooledOptions>(
      {.name = "ddl_pooled",
       .summary = "the EΔ paper's DDL baseline: one erase direction per sequence",
       .paper = "arXiv:2605.06729 Sec. 5",
       .variants = {nlohmann::json::object(), {{"pool", "causal"}}, {{"pool", "token"}}}});
}

}  // namespace geores
