// A few projections of long normalized rows, on a GPU, without a normalized copy of the rows:
//   raw = W x / sqrt(mean x² + eps) + bias       x (rows, width), w (count, width), raw (rows, count)
// In the type of the state throughout; float factors may be split into two tf32 parts, which keep 20 bits
// (wide_matrices.cuh). Forward the rows are read once; backward they and `skip` are
// read once and dx is written. Any width, any count; up to kProjectedAtOnce projections in one pass.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

inline constexpr int64_t kProjectedAtOnce = 32;

struct WideProjectionShape {
  int64_t rows, width, count;
  bool normalized = true;  // false: raw = W x + bias
};

// How many values wide_projection_forward needs in `partial`.
template <class T>
int64_t wide_projection_values(const WideProjectionShape& shape);

// plain is raw without the bias; inverse (rows) is 1/sqrt(mean x² + eps), or 1.
template <class T>
void wide_projection_forward(CudaStream stream, const T* x, const T* w, const T* bias, T eps,
                             T* partial, T* plain, T* raw, T* inverse,
                             const WideProjectionShape& shape);

// dx = skip (or 0, if null) + gradient. Adds to dw and dbias. factors has room for rows · (count + 1)
// values.
template <class T>
struct WideProjectionBackward {
  const T *x, *w, *plain, *inverse, *draw, *skip;
  T *factors, *dx, *dw, *dbias;
};
template <class T>
void wide_projection_backward(CudaStream stream, const WideProjectionBackward<T>& p,
                              const WideProjectionShape& shape);

}  // namespace geores::kernels
