// A residual connection with n streams that a sublayer reads and writes by routes of each token
// (ops/routed/spec.h). It is its description: a connection derives from this class, registers its
// parameters and returns spec(). Routed (ops/routed/routed.h) decides everything else: the kernels, on
// which device, in which type, for one token or many.
// Probes: operator = res (B, T, n, n); pre = read, post = write (B, T, n).
#pragma once

#include <memory>

#include "geores/ops/routed/routed.h"
#include "geores/residual/residual.h"

namespace geores {

class RoutedConnection : public Residual {
 public:
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) final;
  State advance(const State& state, const Sublayer& f, Trace& trace) final;
  PostNormed forward_normalized(const Tensor& x, const Sublayer& f, const PostNorm& norm,
                                Trace& trace) final;
  const Traits& traits() const final { return traits_; }
  std::unique_ptr<TokenStep> token_step(int64_t batch) const override;
  bool supports_bf16_state() const override { return Routed::supports_bf16_state(spec()); }

 protected:
  explicit RoutedConnection(const Traits& traits) : traits_(traits) {}

  virtual RoutedSpec spec() const = 0;

  // The way to the sublayer, with its probes. Override it if something comes before the routes.
  virtual Routed routed(const State& state, Trace& trace);

  int64_t streams() const { return traits_.streams; }
  int64_t stream_width() const { return traits_.state_width / traits_.streams; }

  Traits traits_;
};

}  // namespace geores
