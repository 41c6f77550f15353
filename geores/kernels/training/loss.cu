#include "geores/kernels/training/loss.h"

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

static_assert(kErrorSums == kThreads);  // one for each thread of the block that adds them up

// Reads value by value: targets may be part of a batch and start at any address.
template <class F>
__device__ inline void for_each_value(int64_t size, F&& f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step)
    f(i);
}

template <class T>
__device__ inline T error_at(const Prediction<T>& p, const T* y, int64_t i, int64_t column) {
  return (p.bias ? p.x[i] + p.bias[column] : p.x[i]) - y[i];
}

template <class T>
__global__ void sums_of_errors(Prediction<T> p, const T* y, double* partial) {
  wait_for_previous();
  double sum = 0;
  for_each_value(p.rows * p.columns, [&](int64_t i) {
    const double difference = error_at(p, y, i, i % p.columns);
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
__device__ inline T factor_of(const Prediction<T>& p, const T* scale) {
  return T(2) * *scale / T(p.rows * p.columns);
}

template <class T>
__global__ void error_gradient(Prediction<T> p, const T* y, const T* scale, T* dx) {
  wait_for_previous();
  const T factor = factor_of(p, scale);
  for_each_value(p.rows * p.columns,
                 [&](int64_t i) { dx[i] = factor * error_at(p, y, i, i % p.columns); });
}

constexpr int kErrorsAtOnce = 4;

// One thread for each column of several rows at a time.
template <class T, class A>
__global__ void error_gradient_and_sums(Prediction<T> p, const T* y, const T* scale, A* dx,
                                        T* dbias) {
  wait_for_previous();
  __shared__ T sums[kMostErrorColumns];
  const int columns = static_cast<int>(p.columns);
  const int teams = kThreads / columns, team = threadIdx.x / columns;
  const int column = threadIdx.x % columns;
  if (threadIdx.x < columns) sums[threadIdx.x] = T(0);
  __syncthreads();
  if (team < teams) {
    const T factor = factor_of(p, scale);
    const int64_t step = static_cast<int64_t>(gridDim.x) * teams;
    T sum = 0;
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * teams + team; first < p.rows;
         first += kErrorsAtOnce * step) {
      T held[kErrorsAtOnce];  // all are read before the first is written
#pragma unroll
      for (int i = 0; i < kErrorsAtOnce; ++i) {
        const auto row = first + i * step;
        held[i] = row < p.rows ? factor * error_at(p, y, row * columns + column, column) : T(0);
      }
#pragma unroll
      for (int i = 0; i < kErrorsAtOnce; ++i) {
        const auto row = first + i * step;
        if (row < p.rows) dx[row * columns + column] = As<A>::from(held[i]);
        sum += held[i];
      }
    }
    atomicAdd(sums + column, sum);
  }
  __syncthreads();
  if (threadIdx.x < columns) atomicAdd(dbias + threadIdx.x, sums[threadIdx.x]);
}

}  // namespace

template <class T>
void squared_error_forward(CudaStream stream, const Prediction<T>& p, const T* y, double* partial,
                           T* mean) {
  launch(stream, {kErrorSums, kThreads}, sums_of_errors<T>, p, y, partial);
  launch(stream, {1, kErrorSums}, mean_of<T>, partial, p.rows * p.columns, mean);
  check_launch("squared_error_forward");
}

template <class T>
void squared_error_backward(CudaStream stream, const Prediction<T>& p, const T* y, const T* scale,
                            T* dx) {
  launch(stream, {blocks_for(p.rows * p.columns, 1), kThreads}, error_gradient<T>, p, y, scale, dx);
  check_launch("squared_error_backward");
}

template <class T, class A>
void squared_error_backward(CudaStream stream, const Prediction<T>& p, const T* y, const T* scale,
                            A* dx, T* dbias) {
  launch(stream, {blocks_for_sums(), kThreads}, error_gradient_and_sums<T, A>, p, y, scale, dx,
         dbias);
  check_launch("squared_error_backward");
}

template void squared_error_forward(CudaStream, const Prediction<float>&, const float*, double*,
                                    float*);
template void squared_error_forward(CudaStream, const Prediction<double>&, const double*, double*,
                                    double*);
template void squared_error_backward(CudaStream, const Prediction<float>&, const float*,
                                     const float*, float*);
template void squared_error_backward(CudaStream, const Prediction<double>&, const double*,
                                     const double*, double*);
template void squared_error_backward(CudaStream, const Prediction<float>&, const float*,
                                     const float*, BFloat16*, float*);

}  // namespace geores::kernels
