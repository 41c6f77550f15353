#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/training/optimizer.h"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kVector = 4;
constexpr int kUpdateBlocks = 512;  // about as many as an H100 or H200 runs at a time

// f(first, count) for pieces of up to kVector values, divided among all threads. Flat buffers start
// at multiples of a vector.
template <class F>
__device__ inline void for_each_piece(int64_t size, F&& f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * kVector;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kVector;
       i < size; i += step)
    f(i, static_cast<int>(size - i < kVector ? size - i : kVector));
}

template <class T>
__device__ inline void load_piece(const T* from, int count, T (&to)[kVector]) {
  if (count == kVector)
    load_values<kVector>(from, to);
  else
    for (int k = 0; k < kVector; ++k) to[k] = k < count ? from[k] : T(0);
}

template <class T, class A>
__device__ inline void store_piece(const T (&from)[kVector], int count, A* to) {
  if (count == kVector)
    store_values<kVector>(to, from);
  else
    for (int k = 0; k < count; ++k) to[k] = As<A>::from(from[k]);
}

template <class T>
__global__ void sums_of_squares(const T* x, int64_t size, double* partial) {
  wait_for_previous();
  double sum = 0;
  for_each_piece(size, [&](int64_t at, int count) {
    T piece[kVector];
    load_piece(x + at, count, piece);
    for (const T value : piece) sum += static_cast<double>(value) * static_cast<double>(value);
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// Every block adds up the partial sums again: that is cheaper than another kernel, and always in
// the same order.
template <class T>
__global__ void update(T* values, T* gradients, T* first_moment, T* second_moment, int64_t size,
                       DeviceAdamW<T> step) {
  wait_for_previous();
  __shared__ double length;
  double sum = 0;
  for (int i = threadIdx.x; i < kSquareSums; i += blockDim.x) sum += step.partial_squares[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    length = sqrt(sum);
    if (blockIdx.x == 0) *step.norm = T(length);
  }
  __syncthreads();
  const double scale = step.clip > 0 ? step.clip / (length + 1e-6) : 1.0;
  const T gradient_scale = T(scale < 1.0 || length != length ? scale : 1.0);
  const T rate = *step.learning_rate, step_size = rate / *step.bias1;
  const T second_scale = T(1) / sqrt(*step.bias2);
  const T decay = T(1) - rate * T(step.weight_decay);
  const T beta1 = T(step.beta1), beta2 = T(step.beta2);
  for_each_piece(size, [&](int64_t at, int count) {
    T g[kVector], m[kVector], v[kVector], x[kVector];
    load_piece(gradients + at, count, g);
    load_piece(first_moment + at, count, m);
    load_piece(second_moment + at, count, v);
    load_piece(values + at, count, x);
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      g[k] *= gradient_scale;
      m[k] = beta1 * m[k] + (T(1) - beta1) * g[k];
      v[k] = beta2 * v[k] + (T(1) - beta2) * g[k] * g[k];
      x[k] = x[k] * (at + k < step.decayed ? decay : T(1)) -
             step_size * m[k] / (sqrt(v[k]) * second_scale + T(step.epsilon));
      if (step.clear_gradients) g[k] = T(0);
    }
    store_piece(g, count, gradients + at);
    store_piece(m, count, first_moment + at);
    store_piece(v, count, second_moment + at);
    store_piece(x, count, values + at);
    if (step.product_values) store_piece(x, count, step.product_values + at);
  });
}

}  // namespace

template <class T>
void adamw_update(CudaStream stream, T* values, T* gradients, T* first_moment, T* second_moment,
                  int64_t size, const DeviceAdamW<T>& step) {
  launch(stream, {kSquareSums, kThreads}, sums_of_squares<T>, gradients, size,
         step.partial_squares);
  launch(stream, {kUpdateBlocks, kThreads}, update<T>, values, gradients, first_moment,
         second_moment, size, step);
  check_launch("adamw_update");
}

template void adamw_update(CudaStream, float*, float*, float*, float*, int64_t,
                           const DeviceAdamW<float>&);
template void adamw_update(CudaStream, double*, double*, double*, double*, int64_t,
                           const DeviceAdamW<double>&);

}  // namespace geores::kernels
