#include "geores/kernels/dense/post_norm.h"

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <class L, class T, class A>
__global__ void forward(const T* x, const A* branch, T eps, T* y, A* product, T* inverses,
                        int64_t rows, int width) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  for_each_token<L::kGroup>(rows, [&](int64_t row, bool there) {
    T v[L::kHeld];
    L::load(x + row * width, lane, width, v);
    if (branch) {
      T added[L::kHeld];
      L::load(branch + row * width, lane, width, added);
#pragma unroll
      for (int i = 0; i < L::kHeld; ++i) v[i] += added[i];
    }
    T squares = 0;
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) squares += v[i] * v[i];
    const T inverse = T(1) / sqrt(group_sum<L::kGroup>(squares) / T(width) + eps);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) v[i] *= inverse;
    if (!there) return;
    L::store(v, y + row * width, lane, width);
    if (product) L::store(v, product + row * width, lane, width);
    if (inverses && lane == 0) inverses[row] = inverse;
  });
}

template <class L, class T, class A>
__global__ void backward(const T* y, const T* inverses, const T* dy, const A* dproduct, T* dx,
                         A* dbranch, int64_t rows, int width) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  for_each_token<L::kGroup>(rows, [&](int64_t row, bool there) {
    T z[L::kHeld], g[L::kHeld] = {};
    L::load(y + row * width, lane, width, z);
    if (dy) L::load(dy + row * width, lane, width, g);
    if (dproduct) {
      T more[L::kHeld];
      L::load(dproduct + row * width, lane, width, more);
#pragma unroll
      for (int i = 0; i < L::kHeld; ++i) g[i] += more[i];
    }
    T along = 0;
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) along += g[i] * z[i];
    along = group_sum<L::kGroup>(along) / T(width);
    const T inverse = inverses[row];
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) g[i] = inverse * (g[i] - z[i] * along);
    if (!there) return;
    L::store(g, dx + row * width, lane, width);
    if (dbranch) L::store(g, dbranch + row * width, lane, width);
  });
}

}  // namespace

template <class T, class A>
void post_norm_forward(CudaStream stream, const T* x, const A* branch, T eps, T* y, A* product,
                       T* inverse, int64_t rows, int64_t width) {
  if (rows == 0) return;
  with_long_row<T, kPostNormRow>(width, [&]<class L>(L) {
    launch(stream, {blocks_for(rows, L::kGroup), kThreads}, forward<L, T, A>, x, branch, eps, y,
           product, inverse, rows, static_cast<int>(width));
  });
  check_launch("post_norm_forward");
}

template <class T, class A>
void post_norm_backward(CudaStream stream, const T* y, const T* inverse, const T* dy,
                        const A* dproduct, T* dx, A* dbranch, int64_t rows, int64_t width) {
  if (rows == 0) return;
  with_long_row<T, kPostNormRow>(width, [&]<class L>(L) {
    launch(stream, {blocks_for(rows, L::kGroup), kThreads}, backward<L, T, A>, y, inverse, dy,
           dproduct, dx, dbranch, rows, static_cast<int>(width));
  });
  check_launch("post_norm_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                               \
  template void post_norm_forward(CudaStream, const T*, const A*, T, T*, A*, T*, int64_t,      \
                                  int64_t);                                                    \
  template void post_norm_backward(CudaStream, const T*, const T*, const T*, const A*, T*, A*, \
                                   int64_t, int64_t);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
