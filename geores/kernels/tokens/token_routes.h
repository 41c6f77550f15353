// A token's path to its sublayer as one kernel, and back as another, on a GPU. For connections
// whose routes are made from the token itself, with four streams and bfloat16 products with a
// float32 state. Forward:
//   z = norm(x) without weight,   raw = z Wᵀ + bias  ->  res, read, write,
//   h = LN(Σ_j read_j x_j), `tiles` times side by side
// The backward kernel takes dh, dwrite and dout, the gradient of out_i = Σ_j res_ij x_j + write_i
// b_i. The norm's weight and bias are part of W and bias (pack_route_weights).
#pragma once

#include <type_traits>

#include "geores/kernels/dense/projections.h"
#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/norms/norm.h"
#include "geores/kernels/sizes.h"

namespace geores::kernels {

// JPmHC's read and write without its mixer: raw (tokens, 2, 4, 4) -> read, the column means of
// softmax(raw₀) over rows; write, the row sums of softmax(raw₁) over columns; res = I.
struct SoftmaxRoutes {};

// The other routes of hyper-connections: read = σ(raw), write = 2σ(raw), and res as its mixer makes it
// of the rest of raw.
//   mHC: Sinkhorn-Knopp, rows last, on logits (4, 4) clamped to ±bound (0: not clamped); the gradient
//   is the implicit one, or that of at most kMostGuardedIterations iterations
struct SinkhornRoutes {
  int iterations;
  float bound;
  bool unrolled;
};
struct PermutationRoutes {};  // mHC-lite: softmax(logits) of all 24 permutations in their order
// sHC with fixed amplitudes (spectral_sphere_forward): tanh of three entries of U's skew matrix, three of
// V's, and three singular values.
struct SphereRoutes {};

// The number of raw values of a token. GuardedRoutes read four tiles, all others one.
constexpr int64_t raw_values(const CayleyRoutes<float>&) {
  return 3 * kRoutedStreams * kRoutedStreams;
}
constexpr int64_t raw_values(const GuardedRoutes<float>&) {
  return 2 * kRoutedStreams + kRoutedStreams * kRoutedStreams;
}
constexpr int64_t raw_values(const SoftmaxRoutes&) { return 2 * kRoutedStreams * kRoutedStreams; }
constexpr int64_t raw_values(const SinkhornRoutes&) { return 24; }
constexpr int64_t raw_values(const PermutationRoutes&) { return 32; }
constexpr int64_t raw_values(const SphereRoutes&) { return 17; }
template <class Routes>
constexpr int64_t read_tiles(const Routes&) {
  return std::is_same_v<Routes, GuardedRoutes<float>> ? kRoutedStreams : 1;
}
constexpr bool is_routed_stream_width(int64_t d) { return d == 32 || d == 64 || d == 128; }

// Arrays of raw values have rows of stored_raw values; those beyond the raw values are 0.
constexpr int64_t stored_raw(int64_t raw) { return (raw + 7) / 8 * 8; }

// W in the order in which the matrix instructions load it, for both products: stored_raw · width values
// for z Wᵀ, and padded_raw · width for draw W; bias (stored_raw).
constexpr int64_t padded_raw(int64_t raw) { return (raw + 15) / 16 * 16; }
struct RouteWeights {
  BFloat16 *forward, *backward;
  float* bias;
};
struct NormParameters {
  const float *weight, *bias;  // null for 1 and 0
};
void pack_route_weights(CudaStream stream, const Projections<const float>& projections,
                        const NormParameters& norm, const RouteWeights& packed);

// From sums = Σ draw zᵀ (stored_raw, width) and dbias to the gradients of the projections and of the
// norm's parameters (or null). All of them are added to.
void unpack_route_gradients(CudaStream stream, const Projections<const float>& projections,
                            const NormParameters& norm, const float* sums, const float* dbias,
                            const Projections<float>& gradients, float* dnorm_weight,
                            float* dnorm_bias);

struct TokenRouteForward {
  const float* x;    // (tokens, 4·d)
  Norm<float> norm;  // of the state; only kind and eps are used
  RouteWeights weights;
  Norm<float> read_norm;
  BFloat16* z;  // (tokens, 4·d)
  RowStatistics<float>* statistics;
  float *raw, *res, *read, *write;  // (tokens, stored_raw), (tokens, 4, 4), (tokens, 4) twice
  BFloat16* h;                      // (tokens, tiles·d)
  RowStatistics<float>* read_statistics;
};
template <class Routes>
void token_route_forward(CudaStream stream, const TokenRouteForward& p, const Routes& routes,
                         int64_t tokens, int64_t d);

struct TokenRouteBackward {
  const float* x;
  Norm<float> norm;
  const RowStatistics<float>* statistics;
  RouteWeights weights;
  const float *raw, *res, *read;
  Norm<float> read_norm;
  const RowStatistics<float>* read_statistics;
  const BFloat16* dh;
  const float *dwrite, *dout;
  BFloat16* draw;  // (tokens, stored_raw)
  float* dx;
  float *dread_weight, *dbias;  // added to
};
template <class Routes>
void token_route_backward(CudaStream stream, const TokenRouteBackward& p, const Routes& routes,
                          int64_t tokens, int64_t d);

}  // namespace geores::kernels
