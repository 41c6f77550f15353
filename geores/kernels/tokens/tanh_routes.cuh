// The routes of Zhu et al.'s hyper-connections for a token with four residual streams: one lane for each
// of them.
#pragma once

#include "geores/kernels/tokens/route_values.cuh"
#include "geores/kernels/tokens/tanh_token_routes.h"

namespace geores::kernels::device {

struct TanhLane {
  using Routes = TanhTokenRoutes;
  static constexpr bool kMixes = true, kByStream = true;
  static constexpr int kRaw = 24, kLanes = 4, kHeld = 6;
  const Routes& routes;
  float scale, post_scale, turned[kHeld];

  static __device__ int index(int k) { return kHeld * (static_cast<int>(threadIdx.x) % 4) + k; }

  __device__ TanhLane(const float* raw, const Routes& with)
      : routes(with), scale(*with.parameters.scale), post_scale(*with.parameters.post_scale) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) turned[k] = tanhf(raw[index(k)]);
  }

  // Where the kth value of this lane belongs in the routes.
  static __device__ int made_index(int k) {
    const int j = static_cast<int>(threadIdx.x) % 4;
    return k == 0 ? RouteValues::kRead + j : k <= 4 ? 4 * (k - 1) + j : RouteValues::kWrite + j;
  }
  // The static part of a route, or its gradient.
  template <class T>
  static __device__ T* static_part(const TanhRoutes<T>& p, int index) {
    return index < RouteValues::kRead    ? p.res + index
           : index < RouteValues::kWrite ? p.pre + (index - RouteValues::kRead)
                                         : p.post + (index - RouteValues::kWrite);
  }

  __device__ void forward(float* made) const {
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
      made[made_index(k)] =
          (k < 5 ? scale : post_scale) * turned[k] + *static_part(routes.parameters, made_index(k));
  }

  __device__ void backward(const float* d, const float*, float (&draw)[kHeld]) const {
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
      draw[k] = d[made_index(k)] * (k < 5 ? scale : post_scale) * (1.f - turned[k] * turned[k]);
  }

  // Sums over tokens: the gradients of the static parts, then those of both scales.
  static constexpr int kSums = kHeld + 2, kAllSums = RouteValues::kCount + 2;
  static __device__ int sum_index(int k) {
    return k < kHeld ? made_index(k) : RouteValues::kCount + k - kHeld;
  }
  __device__ void add_sums(const float* d, const float (&)[kHeld], float (&sums)[kSums]) const {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const float gradient = d[made_index(k)];
      sums[k] += gradient;
      sums[kHeld + k / 5] += gradient * turned[k];
    }
  }
  static __device__ float* sum_target(const Routes& routes, float*, int i) {
    if (i < RouteValues::kCount) return static_part(routes.gradients, i);
    return i == RouteValues::kCount ? routes.gradients.scale : routes.gradients.post_scale;
  }
};

}  // namespace geores::kernels::device
