#include "geores/kernels/norms/post_norm.h"

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

// held += the row, if there is one.
template <class L, class T, class A>
__device__ inline void add_row(const A* rows, int64_t at, int lane, int width,
                               T (&held)[L::kHeld]) {
  if (!rows) return;
  T more[L::kHeld];
  L::load(rows + at, lane, width, more);
#pragma unroll
  for (int i = 0; i < L::kHeld; ++i) held[i] += more[i];
}

template <class L, class T, class A, class S>
__global__ void forward(PostNormForward<T, A, S> p, int64_t rows, int width) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  for_each_token<L::kGroup>(rows, [&](int64_t row, bool there) {
    const auto at = row * width;
    T v[L::kHeld];
    L::load(p.x + at, lane, width, v);
    add_row<L>(p.branch, at, lane, width, v);
    T squares = 0;
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) squares += v[i] * v[i];
    const T inverse = T(1) / sqrt(group_sum<L::kGroup>(squares) / T(width) + p.eps);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) v[i] *= inverse;
    if (!there) return;
    if (p.y) L::store(v, p.y + at, lane, width);
    add_row<L>(p.added, at, lane, width, v);
    if (p.sum) L::store(v, p.sum + at, lane, width);
    if (p.product) L::store(v, p.product + at, lane, width);
    if (p.inverse && lane == 0) p.inverse[row] = inverse;
  });
}

template <class L, class T, class A, class S>
__global__ void backward(PostNormBackward<T, A, S> p, int64_t rows, int width) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  for_each_token<L::kGroup>(rows, [&](int64_t row, bool there) {
    const auto at = row * width;
    T z[L::kHeld], g[L::kHeld] = {};
    L::load(p.y + at, lane, width, z);
    add_row<L>(p.dsum, at, lane, width, g);
    add_row<L>(p.dproduct, at, lane, width, g);
    if (p.dadded && there) L::store(g, p.dadded + at, lane, width);
    add_row<L>(p.dy, at, lane, width, g);
    T along = 0;
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) along += g[i] * z[i];
    along = group_sum<L::kGroup>(along) / T(width);
    const T inverse = p.inverse[row];
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) g[i] = inverse * (g[i] - z[i] * along);
    if (!there) return;
    L::store(g, p.dx + at, lane, width);
    if (p.dbranch) L::store(g, p.dbranch + at, lane, width);
  });
}

}  // namespace

template <class T, class A, class S>
void post_norm_forward(CudaStream stream, const PostNormForward<T, A, S>& p, int64_t rows,
                       int64_t width) {
  if (rows == 0) return;
  with_long_row<T, kPostNormRow>(width, [&]<class L>(L) {
    launch(stream, {blocks_for(rows, L::kGroup), kThreads}, forward<L, T, A, S>, p, rows,
           static_cast<int>(width));
  });
  check_launch("post_norm_forward");
}

template <class T, class A, class S>
void post_norm_backward(CudaStream stream, const PostNormBackward<T, A, S>& p, int64_t rows,
                        int64_t width) {
  if (rows == 0) return;
  with_long_row<T, kPostNormRow>(width, [&]<class L>(L) {
    launch(stream, {blocks_for(rows, L::kGroup), kThreads}, backward<L, T, A, S>, p, rows,
           static_cast<int>(width));
  });
  check_launch("post_norm_backward");
}

#define GEORES_INSTANTIATE(T, A, S)                                                               \
  template void post_norm_forward(CudaStream, const PostNormForward<T, A, S>&, int64_t, int64_t); \
  template void post_norm_backward(CudaStream, const PostNormBackward<T, A, S>&, int64_t, int64_t);
GEORES_INSTANTIATE(float, float, float)
GEORES_INSTANTIATE(float, BFloat16, float)
GEORES_INSTANTIATE(float, BFloat16, BFloat16)
GEORES_INSTANTIATE(double, double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
