// JPmHC's softmax routes (arXiv:2602.18308) of long normalized rows, on a GPU, from a packed form of the
// generator's weights: a softmax ignores a number added to all its logits and the Cayley map takes
// H̃ − H̃ᵀ, so of the generator's 2n² or 3n² outputs only these differences are computed, in this order:
//   H̃_pre[i][k] − H̃_pre[i][n−1],  H̃_post[k][j] − H̃_post[n−1][j],  H̃_res[i][j] − H̃_res[j][i], i < j
// The products are those of wide_projection.h. With the mean of each packed row taken off and one more
// row 1/width, which gives a = mean(x)/rms(x), LN(x) W is rms(x)-normalized products over √(1 − a²).
#pragma once

#include "geores/kernels/routed/wide_projection.h"

namespace geores::kernels {

struct SoftmaxShape {
  int64_t rows, width, n;  // n is one of is_device_mixer_size
  bool layer;              // LN(x), otherwise x / sqrt(mean x² + eps)
  bool mixes;              // H_res by a Cayley map; otherwise there is none

  constexpr int64_t differences() const { return 2 * n * (n - 1) + (mixes ? n * (n - 1) / 2 : 0); }
  constexpr int64_t count() const { return differences() + (layer ? 1 : 0); }
  constexpr int64_t outputs() const { return (mixes ? 3 : 2) * n * n; }
  constexpr WideProjectionShape projection() const {
    return {.rows = rows, .width = width, .count = count(), .normalized = true};
  }
};

// The generator's outputs whose difference is the r-th.
struct DifferenceOf {
  int at, minus;
};
constexpr DifferenceOf difference_of(int r, int n) {
  const int each = n * (n - 1);
  if (r < each) return {r / (n - 1) * n + r % (n - 1), r / (n - 1) * n + n - 1};
  r -= each;
  if (r < each) return {n * n + r, n * n + each + r % n};
  r -= each;
  int i = 0;
  for (; r >= n - 1 - i; ++i) r -= n - 1 - i;
  const int j = i + 1 + r;
  return {2 * n * n + i * n + j, 2 * n * n + j * n + i};
}

// The generator: weight (outputs, width), bias (outputs), and the LayerNorm's own (width). All but the
// weight may be null.
template <class T>
struct SoftmaxGenerator {
  T *weight, *bias, *norm_weight, *norm_bias;
};

// packed (count, width), packed_bias (differences).
template <class T>
void pack_differences(CudaStream stream, const SoftmaxGenerator<const T>& generator, T* packed,
                      T* packed_bias, const SoftmaxShape& shape);
// Adds to the gradients, of which those of parameters that are null are left out.
template <class T>
void unpack_difference_gradients(CudaStream stream, const SoftmaxGenerator<const T>& generator,
                                 const T* dpacked, const T* dpacked_bias,
                                 const SoftmaxGenerator<T>& gradients, const SoftmaxShape& shape);

// temperature of both softmaxes, α and number of steps of the Cayley map, negative: exact.
template <class T>
struct SoftmaxRouting {
  T temperature, alpha;
  int steps;
};

// From wide_projection_sums of the packed weights to the routes: res (rows, n, n), if `mixes`; read and
// write (rows, n). plain (rows, count) and inverse (rows), for the backward pass, or null.
template <class T>
struct SoftmaxRoutesForward {
  const T *partial, *bias;
  T eps;
  T *plain, *inverse, *res, *read, *write;
};
template <class T>
void softmax_routes_forward(CudaStream stream, const SoftmaxRoutesForward<T>& p,
                            const SoftmaxRouting<T>& routing, const SoftmaxShape& shape);

// Overwrites factors (rows, count + 1), for wide_projection_from_factors; adds to dbias (differences).
template <class T>
struct SoftmaxRoutesBackward {
  const T *plain, *inverse, *bias, *dres, *dread, *dwrite;
  T *factors, *dbias;
};
template <class T>
void softmax_routes_backward(CudaStream stream, const SoftmaxRoutesBackward<T>& p,
                             const SoftmaxRouting<T>& routing, const SoftmaxShape& shape);

}  // namespace geores::kernels
