// Routes with read = σ(raw), write = 2σ(raw) and a mixer of the hyper-connections, for a token with four
// residual streams: one lane for each of them.
#pragma once

#include "geores/kernels/mixers/quad_sinkhorn.cuh"
#include "geores/kernels/tokens/route_values.cuh"
#include "geores/manifold/cayley_general.h"
#include "geores/manifold/permutation.h"
#include "geores/manifold/sinkhorn.h"
#include "geores/manifold/spectral_sphere.h"

namespace geores::kernels::device {

__device__ inline float logistic(float x) { return 1.f / (1.f + __expf(-x)); }

// Shared by all of them: raw begins with four values for reading and four for writing.
struct SigmoidLane {
  static constexpr bool kMixes = true, kByStream = false;
  static constexpr int kLanes = 4, kMixer = 8;  // kMixer: where the mixer's raw values begin
  int i = static_cast<int>(threadIdx.x) % 4;
  float open, half;

  __device__ explicit SigmoidLane(const float* raw)
      : open(logistic(raw[i])), half(logistic(raw[4 + i])) {}

  // Index of the kth raw value of a lane whose share of the mixer's are `each` neighbours.
  static __device__ int index_of(int k, int each) {
    const int lane = static_cast<int>(threadIdx.x) % 4;
    return k < 2 ? 4 * k + lane : kMixer + each * lane + k - 2;
  }

  __device__ void forward_sigmoids(float* made) const {
    made[RouteValues::kRead + i] = open;
    made[RouteValues::kWrite + i] = 2 * half;
  }
  __device__ void backward_sigmoids(const float* d, float& dread, float& dwrite) const {
    dread = d[RouteValues::kRead + i] * open * (1 - open);
    dwrite = d[RouteValues::kWrite + i] * 2 * half * (1 - half);
  }
};

// The EΔ paper's mHC. Stores only the divisors of the iterations; the backward pass multiplies p back.
struct GuardedLane : SigmoidLane, RawSums<GuardedLane, 24, 6> {
  using Routes = GuardedRoutes<float>;
  static constexpr int kRaw = 24, kHeld = 6;
  Routes routes;
  QuadRow<float> start;

  static __device__ int index(int k) { return index_of(k, 4); }

  __device__ GuardedLane(const float* raw, const Routes& with) : SigmoidLane(raw), routes(with) {
#pragma unroll
    for (int j = 0; j < 4; ++j) start.at[j] = __expf(raw[kMixer + 4 * i + j]);
  }

  __device__ manifold::SinkhornOptions options() const {
    return {.iterations = routes.iterations, .bound = 0, .guard = routes.guard};
  }

  __device__ void forward(float* made) const {
    auto p = start;
    manifold::sinkhorn_iterations(p, options());
#pragma unroll
    for (int j = 0; j < 4; ++j) made[4 * i + j] = p.at[j];
    forward_sigmoids(made);
  }

  __device__ void backward(const float* d, const float*, float (&draw)[kHeld]) const {
    QuadRow<float> dp;
#pragma unroll
    for (int j = 0; j < 4; ++j) dp.at[j] = d[4 * i + j];
    manifold::sinkhorn_iterations_backward(start, options(), dp);
    backward_sigmoids(d, draw[0], draw[1]);
#pragma unroll
    for (int j = 0; j < 4; ++j) draw[2 + j] = dp.at[j] * start.at[j];
  }
};

// mHC with the rows normalised last: a lane has a column, which is a row of the transposed matrix. The
// iterations go on numbers, not on their logarithms, relative to the largest of a column.
struct SinkhornLane : SigmoidLane, RawSums<SinkhornLane, 24, 6> {
  using Routes = SinkhornRoutes;
  static constexpr int kRaw = 24, kHeld = 6;
  Routes routes;
  QuadRow<float> start;
  bool beyond[4];  // logits that the bound has cut off

  static __device__ int index(int k) {
    const int lane = static_cast<int>(threadIdx.x) % 4;
    return k < 2 ? 4 * k + lane : kMixer + 4 * (k - 2) + lane;
  }

  __device__ SinkhornLane(const float* raw, const Routes& with) : SigmoidLane(raw), routes(with) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      start.at[j] = raw[kMixer + 4 * j + i];
      beyond[j] = routes.bound > 0 && fabsf(start.at[j]) > routes.bound;
    }
    start = quad_start(start, options(), [](float x) { return __expf(x); });
  }

  __device__ manifold::SinkhornOptions options() const {
    return {.iterations = routes.iterations, .bound = routes.bound};
  }

  __device__ void forward(float* made) const {
    auto p = start;
    manifold::sinkhorn_iterations(p, options());
#pragma unroll
    for (int j = 0; j < 4; ++j) made[4 * j + i] = p.at[j];
    forward_sigmoids(made);
  }

  __device__ void backward(const float* d, const float* res, float (&draw)[kHeld]) const {
    backward_sigmoids(d, draw[0], draw[1]);
    if (routes.unrolled) {
      QuadRow<float> dp;
#pragma unroll
      for (int j = 0; j < 4; ++j) dp.at[j] = d[4 * j + i];
      manifold::sinkhorn_iterations_backward(start, options(), dp);
#pragma unroll
      for (int j = 0; j < 4; ++j) draw[2 + j] = dp.at[j] * start.at[j];
    } else {  // every lane solves the same system
      manifold::Matrix<float, 4> p, dp;
#pragma unroll
      for (int row = 0; row < 4; ++row)
#pragma unroll
        for (int j = 0; j < 4; ++j) p(row, j) = res[4 * j + row], dp(row, j) = d[4 * j + row];
      const auto all = manifold::sinkhorn_backward_implicit(p, p, dp, {.bound = 0});
#pragma unroll
      for (int j = 0; j < 4; ++j)
        draw[2 + j] = i == 0 ? all(0, j) : i == 1 ? all(1, j) : i == 2 ? all(2, j) : all(3, j);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (beyond[j]) draw[2 + j] = 0.f;
  }
};

// mHC-lite. In lexicographic order, a lane has the six permutations that take stream 0 to its own
// number; the other streams go to the three numbers that are left.
struct PermutationLane : SigmoidLane, RawSums<PermutationLane, 32, 8> {
  using Routes = PermutationRoutes;
  static constexpr int kRaw = 32, kEach = 6, kHeld = 2 + kEach;
  float weight[kEach];

  static __device__ int index(int k) { return index_of(k, kEach); }
  static constexpr int to(int r, int s) { return manifold::nth_permutation<3>(r).to[s]; }

  __device__ PermutationLane(const float* raw, const Routes&) : SigmoidLane(raw) {
    float largest = -INFINITY, sum = 0;
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      weight[r] = raw[kMixer + kEach * i + r];
      largest = fmaxf(largest, weight[r]);
    }
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      weight[r] = __expf(weight[r] - largest);
      sum += weight[r];
    }
    sum = quad_sum(sum);
#pragma unroll
    for (int r = 0; r < kEach; ++r) weight[r] /= sum;
  }

  __device__ void forward(float* made) const {
    float left[3][3] = {}, all[16], sum = 0;  // of streams 1 to 3, to the numbers that are left
    for_each_permutation([&](auto r) {
      sum += weight[r.value];
#pragma unroll
      for (int s = 0; s < 3; ++s) left[s][to(r.value, s)] += weight[r.value];
    });
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      all[j] = j == i ? sum : 0.f;
#pragma unroll
      for (int s = 0; s < 3; ++s) {
        const float before = j > 0 ? left[s][j - 1] : 0.f, here = j < 3 ? left[s][j] : 0.f;
        all[4 * (s + 1) + j] = i < j ? before : i > j ? here : 0.f;
      }
    }
    const SharedSums<4, 16, float> sums(all);
#pragma unroll
    for (int j = 0; j < 4; ++j) made[4 * i + j] = sums.at[j];
    forward_sigmoids(made);
  }

  __device__ void backward(const float* d, const float*, float (&draw)[kHeld]) const {
    backward_sigmoids(d, draw[0], draw[1]);
    float left[3][3], mean = 0;
#pragma unroll
    for (int s = 0; s < 3; ++s)
#pragma unroll
      for (int c = 0; c < 3; ++c) left[s][c] = d[4 * (s + 1) + c + (c >= i ? 1 : 0)];
    for_each_permutation([&](auto r) {
      float along = d[i];
#pragma unroll
      for (int s = 0; s < 3; ++s) along += left[s][to(r.value, s)];
      draw[2 + r.value] = along;
      mean += weight[r.value] * along;
    });
    mean = quad_sum(mean);
#pragma unroll
    for (int r = 0; r < kEach; ++r) draw[2 + r] = weight[r] * (draw[2 + r] - mean);
  }

 private:
  // A permutation is a compile-time constant, so that every value stays in a register.
  template <class F>
  static __device__ void for_each_permutation(F&& f) {
    [&]<int... Index>(std::integer_sequence<int, Index...>) {
      (f(std::integral_constant<int, Index>()), ...);
    }
    (std::make_integer_sequence<int, kEach>());
  }
};

// sHC. All four lanes make the same matrix: it is small, and nothing has to be exchanged.
struct SphereLane : SigmoidLane, RawSums<SphereLane, 24, 6> {
  using Routes = SphereRoutes;
  static constexpr int kRaw = 24, kHeld = 6, kEntries = 3, kUsed = 3 * kEntries;
  using Rotation = manifold::Matrix<float, 3>;
  float turned[kUsed];  // tanh of the entries of U's and V's skew matrices and of σ

  static __device__ int index(int k) { return index_of(k, 4); }

  __device__ SphereLane(const float* raw, const Routes&) : SigmoidLane(raw) {
#pragma unroll
    for (int k = 0; k < kUsed; ++k) turned[k] = tanhf(raw[kMixer + k]);
  }

  // (I + M)⁻¹ (I − M) = I + 2 (M² − M) / (1 + s) for a skew M of size 3, because M³ = −s M; s is the
  // sum of its squared entries.
  __device__ Rotation rotation(int first) const {
    const auto m = manifold::skew_from_entries<float, 3>(turned + first);
    float s = 0;
#pragma unroll
    for (int k = 0; k < kEntries; ++k) s += turned[first + k] * turned[first + k];
    const float factor = 2.f / (1.f + s);
    return manifold::identity<float, 3>() + factor * (m * m - m);
  }
  __device__ manifold::Vector<float, 3> sigma() const {
    return {{turned[2 * kEntries], turned[2 * kEntries + 1], turned[2 * kEntries + 2]}};
  }

  __device__ void forward(float* made) const {
    const auto h = manifold::spectral_sphere(rotation(0), sigma(), rotation(kEntries));
#pragma unroll
    for (int j = 0; j < 4; ++j)
      made[4 * i + j] = i == 0 ? h(0, j) : i == 1 ? h(1, j) : i == 2 ? h(2, j) : h(3, j);
    forward_sigmoids(made);
  }

  __device__ void backward(const float* d, const float*, float (&draw)[kHeld]) const {
    backward_sigmoids(d, draw[0], draw[1]);
    manifold::Matrix<float, 4> dh;
#pragma unroll
    for (int k = 0; k < 16; ++k) dh(k / 4, k % 4) = d[k];
    const auto u = rotation(0), v = rotation(kEntries);
    const auto made = manifold::spectral_sphere_backward(u, sigma(), v, dh);
    float all[16] = {};  // those beyond kUsed pad the raw values
    manifold::skew_from_entries_backward(manifold::cayley_transform_backward(u, made.u), all);
    manifold::skew_from_entries_backward(manifold::cayley_transform_backward(v, made.v),
                                         all + kEntries);
#pragma unroll
    for (int k = 0; k < kEntries; ++k) all[2 * kEntries + k] = made.sigma[k];
#pragma unroll
    for (int k = 0; k < kUsed; ++k) all[k] *= 1.f - turned[k] * turned[k];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      draw[2 + k] = i == 0 ? all[k] : i == 1 ? all[4 + k] : i == 2 ? all[8 + k] : all[12 + k];
  }
};

}  // namespace geores::kernels::device
