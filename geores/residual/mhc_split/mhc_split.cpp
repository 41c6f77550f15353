#include "geores/residual/mhc_split/mhc_split.h"

#include "geores/ops/streams.h"

namespace geores {
namespace {

// Plain Sinkhorn-Knopp on exp(logits), with the reference's guard against division by zero.
Tensor guarded_sinkhorn(const Tensor& logits, int64_t iterations) {
  constexpr double guard = 1e-8;
  auto p = logits.exp();
  for (int64_t i = 0; i < iterations; ++i) {
    p = p / (p.sum(-1, /*keepdim=*/true) + guard);
    p = p / (p.sum(-2, /*keepdim=*/true) + guard);
  }
  return p;
}

}  // namespace

Fields MhcSplitOptions::fields() {
  return Fields().add("sinkhorn_iterations", sinkhorn_iterations, "row and column normalisations",
                      {.min = 1});
}

MhcSplit::MhcSplit(const ResidualConfig& config, const MhcSplitOptions& options)
    : iterations_(options.sinkhorn_iterations),
      traits_{.layout = StreamLayout::split,
              .streams = config.streams,
              .state_width = config.width,
              .sublayer_width = config.width} {
  require_streams(config, traits_.layout, "mhc_split");
  const auto width = config.width, n = config.streams;
  const auto scale = torch::full({1}, 0.01);
  const auto project = [&](const char* name, const Tensor& bias) {
    return register_module(name,
                           std::make_shared<ScaledProjection>(width, bias, scale, kInitialStd));
  };
  norm_ = register_module("norm", std::make_shared<LayerNorm>(width));
  rms_weight_ = register_parameter("rms_weight", torch::ones({width}));
  pre_ = project("pre", torch::zeros({n}));
  post_ = project("post", torch::zeros({n}));
  res_ = project("res", 2 * torch::eye(n));
}

Tensor MhcSplit::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  const auto n = traits_.streams;
  const auto normalized = rms_normalize(x) * rms_weight_;
  const auto pre = torch::sigmoid(pre_->forward(normalized));
  const auto post = 2 * torch::sigmoid(post_->forward(normalized));
  const auto res = guarded_sinkhorn(res_->forward(normalized), iterations_);
  trace.probe("operator", [&] { return res; });
  trace.probe("pre", [&] { return pre; });
  trace.probe("post", [&] { return post; });

  const auto streams = split_streams(x, n);
  const auto tiled = collect_streams(pre, streams).repeat({1, 1, n});
  const auto branch = split_streams(f(norm_->forward(tiled)), n);
  return join_streams(mix_streams(res, streams) + post.unsqueeze(-1) * branch);
}

Connection mhc_split_connection() {
  return describe_connection<MhcSplit, MhcSplitOptions>(
      {.name = "mhc_split",
       .summary = "the EΔ paper's mHC baseline: Sinkhorn mixer on split streams",
       .paper = "arXiv:2605.06729 Sec. 5"});
}

}  // namespace geores
