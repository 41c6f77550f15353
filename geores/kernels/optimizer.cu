#include "geores/kernels/device.cuh"
#include "geores/kernels/optimizer.h"

namespace geores::kernels {
namespace {

using namespace device;

template <class T>
__device__ T block_sum(T x) {  // in thread 0
  __shared__ T sums[kThreads / 32];
  x = group_sum<32>(x);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x < kThreads / 32 ? sums[threadIdx.x] : T(0);
  return threadIdx.x < 32 ? group_sum<32>(x) : x;
}

template <class T>
__global__ void sums_of_squares(const T* x, int64_t size, double* partial) {
  double sum = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// Every block adds up the partial sums again: cheaper than a kernel for it, and always in the same
// order.
template <class T>
__global__ void update(T* values, T* gradients, T* first_moment, T* second_moment, int64_t size,
                       DeviceAdamW<T> step) {
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
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const T g = gradients[i] * gradient_scale;
    const T m = beta1 * first_moment[i] + (T(1) - beta1) * g;
    const T v = beta2 * second_moment[i] + (T(1) - beta2) * g * g;
    gradients[i] = g;
    first_moment[i] = m;
    second_moment[i] = v;
    values[i] = values[i] * (i < step.decayed ? decay : T(1)) -
                step_size * m / (sqrt(v) * second_scale + T(step.epsilon));
  }
}

}  // namespace

template <class T>
void adamw_update(Stream stream, T* values, T* gradients, T* first_moment, T* second_moment,
                  int64_t size, const DeviceAdamW<T>& step) {
  sums_of_squares<<<kSquareSums, kThreads, 0, stream>>>(gradients, size, step.partial_squares);
  update<<<2 * kSquareSums, kThreads, 0, stream>>>(values, gradients, first_moment, second_moment,
                                                   size, step);
  check_launch("adamw_update");
}

template void adamw_update(Stream, float*, float*, float*, float*, int64_t,
                           const DeviceAdamW<float>&);
template void adamw_update(Stream, double*, double*, double*, double*, int64_t,
                           const DeviceAdamW<double>&);

}  // namespace geores::kernels
