#include "geores/kernels/tokens/tanh_token_routes.h"

#include "geores/kernels/cuda/matrix.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kStreams = kRoutedStreams, kOutputs = kStreams + 2, kRaw = kStreams * kOutputs;

// Row k of W.
template <class T>
__device__ inline T* row_of(const StreamProjections<T>& p, int k, int d) {
  return k == 0 ? p.pre : k <= kStreams ? p.res + (k - 1) * d : p.post;
}

// One block for each row of the padded matrix.
__global__ void pack_weights(StreamProjections<const float> p, RouteWeights packed, int d) {
  wait_for_previous();
  const int o = blockIdx.x, stream = o / kOutputs, padded = gridDim.x;
  const float* row = o < kRaw ? row_of(p, o % kOutputs, d) : nullptr;
  for (int c = threadIdx.x; c < kStreams * d; c += blockDim.x) {
    const auto value = As<BFloat16>::from(row && c / d == stream ? row[c % d] : 0.f);
    if (row) packed.forward[fragment_index(c / 16 * (kRaw / 8) + o / 8, c % 16, o % 8)] = value;
    packed.backward[fragment_index(c / 8 * (padded / 16) + o / 16, o % 16, c % 8)] = value;
  }
  if (row && threadIdx.x == 0) packed.bias[o] = 0.f;
}

// One block for each row of W.
__global__ void unpack_gradients(const float* sums, StreamProjections<float> gradients, int d) {
  wait_for_previous();
  const int k = blockIdx.x;
  float* row = row_of(gradients, k, d);
  for (int c = threadIdx.x; c < d; c += blockDim.x) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kStreams; ++j) sum += sums[(j * kOutputs + k) * kStreams * d + j * d + c];
    row[c] += sum;
  }
}

}  // namespace

void pack_stream_weights(CudaStream stream, const StreamProjections<const float>& projections,
                         const RouteWeights& packed, int64_t d) {
  launch(stream, {padded_raw(kRaw), kThreads}, pack_weights, projections, packed,
         static_cast<int>(d));
  check_launch("pack_stream_weights");
}

void unpack_stream_gradients(CudaStream stream, const float* sums,
                             const StreamProjections<float>& gradients, int64_t d) {
  launch(stream, {kOutputs, 128}, unpack_gradients, sums, gradients, static_cast<int>(d));
  check_launch("unpack_stream_gradients");
}

}  // namespace geores::kernels
