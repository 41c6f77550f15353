// A few projections of long normalized rows, on a GPU, without a normalized copy of the rows:
//   raw = W x / sqrt(mean x² + eps) + bias       x (rows, width), w (count, width), raw (rows, count)
// Sums in type T; float factors may be split into two tf32 parts, which keep 20 bits (wide_matrices.cuh),
// or, backward and where it is allowed, be rounded to one.
// Forward the rows are read once; backward they and `skip` are read once and dx is written. Any width, any
// count; up to kProjectedAtOnce projections in one pass, and with more a state in bfloat16 has its dx
// rounded after each.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

inline constexpr int64_t kProjectedAtOnce = 32;

struct WideProjectionShape {
  int64_t rows, width, count;
  bool normalized = true;  // false: raw = W x + bias
  bool rounded = false;    // products of the backward pass may round their factors to tf32
};

// How many values wide_projection_forward needs in `partial`.
template <class T>
int64_t wide_projection_values(const WideProjectionShape& shape);

// The routes that follow from a row of raw, or their gradients: read = σ(the first n) + offset, write =
// 2σ(the next n), the others as they are.
template <class T>
struct SigmoidParts {
  T *read = nullptr, *write = nullptr,
    *others = nullptr;  // (rows, n), (rows, n), (rows, count − 2n)
  int n = 0;            // 0: there are none, but raw
};

// plain is raw without the bias; inverse (rows) is 1/sqrt(mean x² + eps), or 1.
template <class T, class S = T>
void wide_projection_forward(CudaStream stream, const S* x, const T* w, const T* bias, T eps,
                             T* partial, T* plain, T* raw, T* inverse,
                             const WideProjectionShape& shape, const SigmoidParts<T>& parts = {},
                             T offset = 0);

// dx = skip (or 0, if null) + gradient. Adds to dw and dbias. factors holds rows · (count + 1)
// values.
template <class T, class S = T>
struct WideProjectionBackward {
  const S* x;
  const T *w, *plain, *inverse, *draw;
  const S* skip;
  T* factors;
  S* dx;
  T *dw, *dbias;
  const T* bias = nullptr;           // with parts
  SigmoidParts<const T> parts = {};  // replaces draw
};
template <class T, class S = T>
void wide_projection_backward(CudaStream stream, const WideProjectionBackward<T, S>& p,
                              const WideProjectionShape& shape);

// The two halves that other routes share (softmax_routes.h): the sums of each slice of the columns,
// partial (slices, rows, count + 1), products first and then the sum of squares; and all of the backward
// pass that follows from the factors.
template <class T>
int64_t wide_projection_slices(const WideProjectionShape& shape);
template <class T, class S = T>
void wide_projection_sums(CudaStream stream, const S* x, const T* w, T* partial,
                          const WideProjectionShape& shape);
template <class T, class S = T>
void wide_projection_from_factors(CudaStream stream, const WideProjectionBackward<T, S>& p,
                                  const WideProjectionShape& shape);

}  // namespace geores::kernels
