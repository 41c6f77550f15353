// The interface of the routes of a token with four residual streams. A struct of lanes makes them:
//   kLanes lanes for each token, kHeld raw values in each of them, at index(k) of its kRaw values;
//   forward(made), backward(gradient of made, res, gradients of the lane's raw values);
//   kMixes: whether res is not the identity; kByStream: whether streams are normalized one by one;
//   further sums over tokens: RawSums, or members of these names
#pragma once

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/tokens/token_routes.h"

namespace geores::kernels::device {

// The routes of one token: res (4, 4), read (4), write (4).
struct RouteValues {
  static constexpr int kCount = 24, kRead = 16, kWrite = 20;
};

// The gradients of raw values are summed, for a bias of the projection.
template <class Lane, int Raw, int Held>
struct RawSums {
  static constexpr int kSums = Held, kAllSums = Raw;
  static __device__ int sum_index(int k) { return Lane::index(k); }
  static __device__ void add_sums(const float*, const float (&draw)[Held], float (&sums)[Held]) {
#pragma unroll
    for (int k = 0; k < Held; ++k) sums[k] += draw[k];
  }
  template <class Routes>
  static __device__ float* sum_target(const Routes&, float* dbias, int i) {
    return dbias + i;
  }
};

}  // namespace geores::kernels::device
