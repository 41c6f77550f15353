#include "geores/residual/residual.h"

#include "geores/base/error.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"

namespace geores {

Tensor Sublayer::between(const Tensor& pre, const Tensor& h, const Tensor& post) const {
  const auto& either = pre.defined() ? pre : post;
  if (between_ && (runs_cpu_kernel(h) || runs_cuda_kernel(either))) return between_(pre, h, post);
  const auto mapped = [](const Tensor& map, const Tensor& x) {
    return map.defined() ? linear_map(x, map) : x;
  };
  return mapped(post, map_(mapped(pre, h)));
}

Tensor Trace::loss() const {
  if (losses_.empty()) return {};
  if (losses_.size() == 1) return losses_[0].sum();
  std::vector<Tensor> flat;
  for (const auto& loss : losses_) flat.push_back(loss.reshape({-1}));
  return torch::cat(flat).sum();
}

PostNormed Residual::forward_normalized(const Tensor& x, const Sublayer& f, const PostNorm& norm,
                                        Trace& trace) {
  return post_norm_of_tokens(forward(x, f, trace), norm);
}

Tensor to_state(const Traits& traits, const Tensor& embedding) {
  if (traits.layout != StreamLayout::expand) return embedding;
  return embedding.unsqueeze(-2).repeat({1, 1, traits.streams, 1});
}

Tensor from_state(const Traits& traits, const Tensor& state) {
  require(!traits.reads_late, "from_state",
          "the last connection decides how these streams are weighed; pass the State of advance()");
  return traits.layout == StreamLayout::expand
             ? state.sum(-2, /*keepdim=*/false, full_type(state.scalar_type()))
             : in_full_type(state);
}

State from_state(const Traits& traits, const State& state) {
  if (state.read.defined()) return collect_streams(state.read, in_full_type(state.total()));
  const bool as_it_is =
      traits.layout != StreamLayout::expand && state.x.scalar_type() != torch::kBFloat16;
  return as_it_is ? state : State(from_state(traits, state.total()));
}

void require_streams(const ResidualConfig& config, StreamLayout layout, const std::string& where) {
  require(config.width >= 1, where, "width must be >= 1, got {}", config.width);
  require(config.streams >= 1, where, "streams must be >= 1, got {}", config.streams);
  if (layout == StreamLayout::split)
    require(config.width % config.streams == 0, where, "width {} is not divisible by {} streams",
            config.width, config.streams);
}

std::string to_string(StreamLayout layout) {
  switch (layout) {
    case StreamLayout::whole:
      return "whole";
    case StreamLayout::split:
      return "split";
    case StreamLayout::expand:
      return "expand";
  }
  return "?";
}

std::string to_string(InitialMap map) {
  switch (map) {
    case InitialMap::identity:
      return "identity";
    case InitialMap::near_identity:
      return "near identity";
    case InitialMap::other:
      return "other";
  }
  return "?";
}

}  // namespace geores
