#include "geores/modules/stream_head.h"

#include "geores/ops/routed/projected.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"

namespace geores {

StreamHead::StreamHead(int64_t streams, int64_t width, double norm_epsilon, double guard)
    : norm_epsilon_(norm_epsilon),
      guard_(guard),
      weights_(register_module(
          "weights", std::make_shared<ScaledProjection>(streams * width, torch::zeros({streams}),
                                                        torch::full({1}, 0.01)))) {}

Tensor StreamHead::forward(const Tensor& x) {
  const auto [weights, skip] =
      projected(join_streams(x), {.layer = false, .epsilon = norm_epsilon_}, {weights_->weights()});
  return collect_streams(torch::sigmoid(weights) + guard_,
                         split_streams(in_full_type(skip), x.size(-2)));
}

}  // namespace geores
