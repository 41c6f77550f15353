// The read and the write of wide residual streams on a GPU (kernels/routed/wide_streams.h), with the
// fewest passes over the state that separately made routes allow.
#pragma once

#include <memory>

#include "geores/ops/routed/forms/forms.h"

namespace geores {

class WideForm final : public RoutedForm {
 public:
  // Whether the kernels take this state (B, T, n, d).
  static bool fits(const Tensor& x);

  // res (B, T, n, n), read and write (B, T, n), x (B, T, n, d). Null where no kernel fits.
  static std::unique_ptr<WideForm> of(const Routes& routes, const Tensor& x,
                                      const ReadNormSpec& norm) {
    return fits(x) ? std::make_unique<WideForm>(routes, routes.read, x, norm) : nullptr;
  }
  // Where they fit; `read` is routes.read, or the weights of the connection before.
  WideForm(const Routes& routes, const Tensor& read, const Tensor& x, const ReadNormSpec& norm);

  // Whether n streams of d values have kernels for a bfloat16 state in the form of this thread.
  static bool takes_half(int64_t n, int64_t d);

  Tensor write(const Tensor& y) const override;
  PostNormed write_normalized(const Tensor& y, const PostNorm& norm) const override;

 private:
  Tensor branch(const Tensor& y) const;  // y in a type that the kernels support
};

}  // namespace geores
