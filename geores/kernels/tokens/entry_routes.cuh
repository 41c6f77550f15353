// Routes of a token with four residual streams, with a lane for each entry of its 4 × 4 matrices. Sums
// over rows and columns are exchanges between lanes, and the chains of dependent operations are shorter
// than in one lane.
#pragma once

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/tokens/route_values.cuh"

namespace geores::kernels::device {

struct Entry {  // the entry (i, j) of this lane
  int at = static_cast<int>(threadIdx.x) % 16, i = at / 4, j = at % 4;
};

__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}
__device__ inline float column_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 4);
  return x + __shfl_xor_sync(kAllLanes, x, 8);
}
__device__ inline float row_maximum(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ inline float column_maximum(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 4));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 8));
}
__device__ inline float entry_of(float x, int i, int j) {
  return __shfl_sync(kAllLanes, x, 4 * i + j, 16);
}

// Σ_k row[k] m_kj, where `row` is this lane's row of the left factor.
__device__ inline float row_times(const float (&row)[4], float m, const Entry& e) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) sum += row[k] * entry_of(m, k, e.j);
  return sum;
}

// Shared by the routes of JPmHC and EΔ-Stream, one lane for each entry (i, j).
struct SoftmaxEntry {
  static constexpr bool kByStream = false;
  static constexpr int kLanes = 16;
  Entry e;
  float scale, pre, post;  // softmaxes

  static __device__ int index(int k) { return 16 * k + Entry().at; }  // index of the kth raw value

  __device__ SoftmaxEntry(const float* raw, float with_scale) : scale(with_scale) {
    const float first = raw[e.at] * scale, second = raw[16 + e.at] * scale;
    pre = __expf(first - row_maximum(first));
    pre /= row_sum(pre);
    post = __expf(second - column_maximum(second));
    post /= column_sum(post);
  }

  __device__ float one() const { return e.i == e.j ? 1.f : 0.f; }

  __device__ void forward_reads(float* made) const {
    const float read = column_sum(pre) / 4, write = row_sum(post);
    if (e.i == 0) made[RouteValues::kRead + e.j] = read;
    if (e.j == 0) made[RouteValues::kWrite + e.i] = write;
  }

  __device__ void backward_reads(const float* d, float& dfirst, float& dsecond) const {
    const float dpre = d[RouteValues::kRead + e.j] / 4, dpost = d[RouteValues::kWrite + e.i];
    dfirst = pre * (dpre - row_sum(pre * dpre)) * scale;
    dsecond = post * (dpost - column_sum(post * dpost)) * scale;
  }
};

// EΔ-Stream's routes: nothing is mixed.
struct SoftmaxLane : SoftmaxEntry, RawSums<SoftmaxLane, 32, 2> {
  using Routes = SoftmaxRoutes;
  static constexpr bool kMixes = false;
  static constexpr int kRaw = 32, kHeld = 2;  // raw values of a lane

  __device__ SoftmaxLane(const float* raw, const Routes&) : SoftmaxEntry(raw, 1.f) {}

  __device__ void forward(float* made) const {
    made[e.at] = one();
    forward_reads(made);
  }

  __device__ void backward(const float* d, const float*, float (&draw)[kHeld]) const {
    backward_reads(d, draw[0], draw[1]);
  }
};

// JPmHC's routes (manifold/cayley_iterative.h).
struct CayleyLane : SoftmaxEntry, RawSums<CayleyLane, 48, 3> {
  using Routes = CayleyRoutes<float>;
  static constexpr bool kMixes = true;
  static constexpr int kRaw = 48, kHeld = 3;
  Routes routes;
  float w, half[4];  // W = H̃ − H̃ᵀ, this row of (α/2) W

  __device__ CayleyLane(const float* raw, const Routes& with)
      : SoftmaxEntry(raw, 1.f / with.temperature), routes(with) {
    const float h = raw[32 + e.at];
    w = h - entry_of(h, e.j, e.i);
#pragma unroll
    for (int k = 0; k < 4; ++k) half[k] = routes.alpha / 2 * entry_of(w, e.i, k);
  }

  __device__ float iterated(int steps) const {
    float y = one() + routes.alpha * w;
    for (int step = 0; step < steps; ++step) y = one() + row_times(half, one() + y, e);
    return y;
  }

  __device__ void forward(float* made) const {
    made[e.at] = iterated(routes.steps);
    forward_reads(made);
  }

  __device__ void backward(const float* d, const float*, float (&draw)[kHeld]) const {
    backward_reads(d, draw[0], draw[1]);
    float dw = 0, dy = d[e.at];
    for (int step = routes.steps; step > 0; --step) {
      const float before = one() + iterated(step - 1);
      float sum = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) sum += entry_of(dy, e.i, k) * entry_of(before, e.j, k);
      dw += routes.alpha / 2 * sum;
      dy = -row_times(half, dy, e);  // Wᵀ = −W
    }
    dw += routes.alpha * dy;
    draw[2] = dw - entry_of(dw, e.j, e.i);
  }
};

}  // namespace geores::kernels::device
