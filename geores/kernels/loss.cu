#include "geores/kernels/loss.h"

#include "geores/kernels/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

static_assert(kErrorSums == kThreads);  // one for each thread of the block that adds them

// Value by value: targets may be part of a batch, which begins anywhere.
template <class F>
__device__ inline void for_each_value(int64_t size, F&& f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step)
    f(i);
}

template <class T>
__global__ void sums_of_errors(const T* x, const T* y, int64_t size, double* partial) {
  wait_for_previous();
  double sum = 0;
  for_each_value(size, [&](int64_t i) {
    const double difference = x[i] - y[i];
    sum += difference * difference;
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class T>
__global__ void mean_of(const double* partial, int64_t size, T* mean) {
  wait_for_previous();
  const double sum = block_sum(partial[threadIdx.x]);
  if (threadIdx.x == 0) *mean = T(sum / static_cast<double>(size));
}

template <class T>
__global__ void error_gradient(const T* x, const T* y, const T* scale, T* dx, int64_t size) {
  wait_for_previous();
  const T factor = T(2) * *scale / T(size);
  for_each_value(size, [&](int64_t i) { dx[i] = factor * (x[i] - y[i]); });
}

}  // namespace

template <class T>
void squared_error_forward(Stream stream, const T* x, const T* y, int64_t size, double* partial,
                           T* mean) {
  launch(stream, {kErrorSums, kThreads}, sums_of_errors<T>, x, y, size, partial);
  launch(stream, {1, kErrorSums}, mean_of<T>, partial, size, mean);
  check_launch("squared_error_forward");
}

template <class T>
void squared_error_backward(Stream stream, const T* x, const T* y, const T* scale, T* dx,
                            int64_t size) {
  launch(stream, {blocks_for(size, 1), kThreads}, error_gradient<T>, x, y, scale, dx, size);
  check_launch("squared_error_backward");
}

template void squared_error_forward(Stream, const float*, const float*, int64_t, double*, float*);
template void squared_error_forward(Stream, const double*, const double*, int64_t, double*,
                                    double*);
template void squared_error_backward(Stream, const float*, const float*, const float*, float*,
                                     int64_t);
template void squared_error_backward(Stream, const double*, const double*, const double*, double*,
                                     int64_t);

}  // namespace geores::kernels
