// The routes of Zhu et al.'s hyper-connections for token_route_forward and token_route_backward
// (token_routes.h): each stream is normalized by itself, and all streams have the same projections,
//   raw_j = W x_j / rms(x_j)   (4, 6)  ->  res, read, write as TanhRoutes has them
// As a projection of the whole token W is a matrix with W four times on its diagonal.
#pragma once

#include "geores/kernels/routed/route_maps.h"
#include "geores/kernels/tokens/token_routes.h"

namespace geores::kernels {

// The gradients are added to by the backward kernel; TokenRouteBackward::dbias is not touched.
struct TanhTokenRoutes {
  TanhRoutes<const float> parameters;
  TanhRoutes<float> gradients;
};
constexpr int64_t raw_values(const TanhTokenRoutes&) {
  return kRoutedStreams * (kRoutedStreams + 2);
}

// RowStatistics of a token: one for each stream.
inline constexpr int64_t kTanhStatistics = kRoutedStreams;

// W (6, d) as the rows of its parameters: one for reading, four for mixing, one for writing.
template <class T>
struct StreamProjections {
  T *pre, *res, *post;  // (1, d), (4, d), (1, d)
};
// packed.bias is set to 0.
void pack_stream_weights(CudaStream stream, const StreamProjections<const float>& projections,
                         const RouteWeights& packed, int64_t d);

// From sums = Σ draw zᵀ (24, 4·d) to the gradients of W, which are added to.
void unpack_stream_gradients(CudaStream stream, const float* sums,
                             const StreamProjections<float>& gradients, int64_t d);

}  // namespace geores::kernels
