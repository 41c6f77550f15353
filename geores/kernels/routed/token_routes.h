// A token's path to its sublayer as one kernel, and back as another, on a GPU. For connections
// whose routes are made from the token itself, with four streams and bfloat16 products beside a
// float32 state. Forward:
//   z = norm(x) without weight,   raw = z Wᵀ + bias  ->  res, read, write,
//   h = LN(Σ_j read_j x_j), `tiles` times side by side
// The backward kernel takes dh, dwrite and dout, the gradient of out_i = Σ_j res_ij x_j + write_i
// b_i. The norm's weight and bias are part of W and bias (pack_route_weights).
#pragma once

#include "geores/kernels/dense/norm.h"
#include "geores/kernels/dense/projections.h"
#include "geores/kernels/mixers/mixers.h"

namespace geores::kernels {

inline constexpr int kRoutedStreams = 4;

// JPmHC's read and write without its mixer: raw (tokens, 2, 4, 4) -> read, the column means of
// softmax(raw₀) over rows; write, the row sums of softmax(raw₁) over columns; res = I.
struct SoftmaxRoutes {};

// The number of raw values of a token: CayleyRoutes and SoftmaxRoutes (one tile), GuardedRoutes (four).
constexpr int64_t raw_values(const CayleyRoutes<float>&) {
  return 3 * kRoutedStreams * kRoutedStreams;
}
constexpr int64_t raw_values(const GuardedRoutes<float>&) {
  return 2 * kRoutedStreams + kRoutedStreams * kRoutedStreams;
}
constexpr int64_t raw_values(const SoftmaxRoutes&) { return 2 * kRoutedStreams * kRoutedStreams; }
constexpr int64_t read_tiles(const CayleyRoutes<float>&) { return 1; }
constexpr int64_t read_tiles(const SoftmaxRoutes&) { return 1; }
constexpr int64_t read_tiles(const GuardedRoutes<float>&) { return kRoutedStreams; }
constexpr bool is_routed_stream_width(int64_t d) { return d == 32 || d == 64 || d == 128; }

// W in the order in which the matrix instructions load it, for both products: raw · width values
// for z Wᵀ, and padded_raw · width for draw W.
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

// From sums = Σ draw zᵀ (raw, width) and dbias (raw) to the gradients of the projections and of the
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
  float *raw, *res, *read, *write;  // (tokens, raw values), (tokens, 4, 4), (tokens, 4) twice
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
  BFloat16* draw;  // (tokens, raw values)
  float* dx;
  float *dread_weight, *dbias;  // added to
};
template <class Routes>
void token_route_backward(CudaStream stream, const TokenRouteBackward& p, const Routes& routes,
                          int64_t tokens, int64_t d);

}  // namespace geores::kernels
