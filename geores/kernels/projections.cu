#include "geores/kernels/projections.h"

#include "geores/kernels/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kRowThreads = 128;

template <class T>
__device__ inline const ProjectionArrays<T>& projection_of(const Projections<T>& p, int& row) {
  int index = 0;
  for (; row >= p.each[index].rows; ++index) row -= p.each[index].rows;
  return p.each[index];
}

template <class T>
__device__ inline int scale_of(const ProjectionArrays<T>& p, int row) {
  return row / (p.rows / p.scales);
}

template <class T, class A>
__global__ void pack(Projections<const T> p, A* packed, T* bias) {
  int row = blockIdx.x;
  const auto& from = projection_of(p, row);
  const T scale = from.scale ? from.scale[scale_of(from, row)] : T(1);
  for (int i = threadIdx.x; i < p.in; i += blockDim.x)
    packed[static_cast<int64_t>(blockIdx.x) * p.in + i] =
        As<A>::from(scale * from.weight[static_cast<int64_t>(row) * p.in + i]);
  if (threadIdx.x == 0) bias[blockIdx.x] = from.bias[row];
}

// One block for each scale and its rows, so that nobody else adds to it.
template <class T>
__global__ void unpack(Projections<const T> p, const T* dpacked, Projections<T> gradients) {
  __shared__ T sums[kRowThreads / 32];
  int block = blockIdx.x, index = 0, first = 0;
  for (; block >= p.each[index].scales; ++index) {
    block -= p.each[index].scales;
    first += p.each[index].rows;
  }
  const auto& from = p.each[index];
  const auto& to = gradients.each[index];
  const int rows = from.rows / from.scales, begin = block * rows;
  const T scale = from.scale ? from.scale[block] : T(1);
  T sum = 0;
  for (int row = begin; row < begin + rows; ++row)
    for (int i = threadIdx.x; i < p.in; i += blockDim.x) {
      const auto at = static_cast<int64_t>(row) * p.in + i;
      const T d = dpacked[static_cast<int64_t>(first + row) * p.in + i];
      to.weight[at] = scale * d;
      sum += d * from.weight[at];
    }
  if (!to.scale) return;
  sum = group_sum<32>(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  sum = 0;
  for (const T part : sums) sum += part;
  to.scale[block] = sum;
}

}  // namespace

template <class T, class A>
void pack_projections(Stream stream, const Projections<const T>& p, A* packed, T* bias) {
  pack<<<static_cast<unsigned>(p.rows()), kRowThreads, 0, stream>>>(p, packed, bias);
  check_launch("pack_projections");
}

template <class T>
void unpack_projection_gradients(Stream stream, const Projections<const T>& p, const T* dpacked,
                                 const Projections<T>& gradients) {
  int scales = 0;
  for (int i = 0; i < p.count; ++i) scales += p.each[i].scales;
  unpack<<<static_cast<unsigned>(scales), kRowThreads, 0, stream>>>(p, dpacked, gradients);
  check_launch("unpack_projection_gradients");
}

template void pack_projections(Stream, const Projections<const float>&, float*, float*);
template void pack_projections(Stream, const Projections<const float>&, BFloat16*, float*);
template void pack_projections(Stream, const Projections<const double>&, double*, double*);
template void unpack_projection_gradients(Stream, const Projections<const float>&, const float*,
                                          const Projections<float>&);
template void unpack_projection_gradients(Stream, const Projections<const double>&, const double*,
                                          const Projections<double>&);

}  // namespace geores::kernels
