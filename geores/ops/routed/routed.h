// Routing around a sublayer: takes each token to the sublayer and back, as a RoutedSpec (spec.h)
// describes it. Always succeeds: this folder alone knows which forms there are (forms/forms.h) and which
// one runs, on which device and for which type and size; `geores bench --explain` prints it.
//     const auto token = Routed::make(x, spec);
//     x = token.write(f(token.read()));
#pragma once

#include <memory>

#include "geores/ops/dense/post_norm.h"
#include "geores/ops/inference/token_step.h"
#include "geores/ops/routed/spec.h"
#include "geores/ops/streams/state.h"

namespace geores {

class RoutedForm;  // forms/forms.h

class Routed {
 public:
  // x (B, T, n·d) or (B, T, n, d); the results of write() have the same shape. `normalized`: Norm(x), where the
  // caller's kernel has made it with x; undefined: the projections' norm is made here.
  static Routed make(const State& x, const RoutedSpec& spec, const Tensor& normalized = {});

  // The sublayer's input: (B, T, tiles · d).
  const Tensor& read() const;

  // The state after the sublayer, for its output y (B, T, tiles · d). leave() lets the write wait for
  // the next reader of the state. Each may be called any number of times.
  Tensor write(const Tensor& y) const;
  State leave(const Tensor& y) const;

  // write(), and RMSNorm over all n·d values of a token; no product.
  PostNormed write_normalized(const Tensor& y, const PostNorm& norm) const;

  // The values of the routes, without gradients: for probes.
  Routes routes() const;

  // Whether such a connection supports a bfloat16 state (Precision::bf16_state) and returns one, in the
  // form of this thread.
  static bool supports_bf16_state(const RoutedSpec& spec);

  // The same for one token of each of `batch` sequences, without gradients. Null where no kernel makes
  // such routes of so many streams.
  static std::unique_ptr<TokenStep> step(const RoutedSpec& spec, int64_t batch);

 private:
  Routed(std::shared_ptr<const RoutedForm> form, bool joined, const RoutedSpec& spec);
  Tensor branch(const Tensor& y) const;  // y as the forms take it

  std::shared_ptr<const RoutedForm> form_;
  bool joined_;  // x is (B, T, n·d)
  int64_t tiles_;
  bool reads_late_;
};

}  // namespace geores
