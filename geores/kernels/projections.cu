#include "geores/kernels/projections.h"

#include "geores/kernels/matrix.cuh"
#include "geores/kernels/token_routes.h"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kRowThreads = 128, kScaleThreads = 1024;

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
  wait_for_previous();
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
  wait_for_previous();
  __shared__ T sums[kScaleThreads / 32];
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
#pragma unroll 4
  for (int i = begin * p.in + threadIdx.x; i < (begin + rows) * p.in; i += blockDim.x) {
    const T d = dpacked[first * p.in + i];
    to.weight[i] = scale * d;
    sum += d * from.weight[i];
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

// Columns of a block's rows, a thread for each of them and of several rows at a time.
template <class T, class A>
__global__ void convert(const T* x, A* y, T* sums, int64_t rows, int columns) {
  wait_for_previous();
  extern __shared__ unsigned char memory[];
  auto* shared = reinterpret_cast<T*>(memory);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) shared[i] = T(0);
  __syncthreads();
  const int teams = blockDim.x / columns, team = threadIdx.x / columns;
  const int column = threadIdx.x % columns;
  if (team < teams) {
    T sum = 0;
#pragma unroll 4
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * teams + team; row < rows;
         row += static_cast<int64_t>(gridDim.x) * teams) {
      const T value = x[row * columns + column];
      y[row * columns + column] = As<A>::from(value);
      sum += value;
    }
    atomicAdd(shared + column, sum);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x) atomicAdd(sums + i, shared[i]);
}

template <class T>
__global__ void add_rows(const T* x, T* sums, int64_t rows, int64_t columns) {
  wait_for_previous();
  const auto column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  T sum = 0;
#pragma unroll 8
  for (int64_t row = 0; row < rows; ++row) sum += x[row * columns + column];
  sums[column] = sum;
}

// One block for each row of W, and for those that pad it.
__global__ void pack_weights(Projections<const float> p, NormParameters norm, RouteWeights packed,
                             int raw) {
  wait_for_previous();
  __shared__ float sums[kThreads / 32];
  const int o = blockIdx.x;
  int row = o;
  const float *weight = nullptr, *bias = nullptr;
  float scale = 0;
  if (o < raw) {
    const auto& from = projection_of(p, row);
    scale = from.scale ? from.scale[scale_of(from, row)] : 1.f;
    weight = from.weight + static_cast<int64_t>(row) * p.in;
    bias = from.bias + row;
  }
  float sum = 0;
  for (int c = threadIdx.x; c < p.in; c += kThreads) {
    const float plain = weight ? scale * weight[c] : 0.f;
    const auto value = As<BFloat16>::from(norm.weight ? plain * norm.weight[c] : plain);
    if (norm.bias) sum += plain * norm.bias[c];
    if (weight) packed.forward[fragment_place(c / 16 * (raw / 8) + o / 8, c % 16, o % 8)] = value;
    packed.backward[fragment_place(c / 8 * (static_cast<int>(gridDim.x) / 16) + o / 16, o % 16,
                                   c % 8)] = value;
  }
  sum = group_sum<32>(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0 || !weight) return;
  sum = *bias;
  for (const float part : sums) sum += part;
  packed.bias[o] = sum;
}

// One block for each scale and its rows, so that nobody else adds to it, or for each row. A thread
// stays with one column: the width divides their number.
constexpr int kUnpackThreads = 512;
__global__ void unpack_gradients(Projections<const float> p, NormParameters norm, const float* sums,
                                 const float* dbias, Projections<float> gradients,
                                 float* dnorm_weight, float* dnorm_bias) {
  wait_for_previous();
  __shared__ float parts[kUnpackThreads / 32];
  int block = blockIdx.x, index = 0, first = 0;
  const auto blocks = [&](int i) { return p.each[i].scale ? p.each[i].scales : p.each[i].rows; };
  for (; block >= blocks(index); ++index) {
    block -= blocks(index);
    first += p.each[index].rows;
  }
  const auto& from = p.each[index];
  const auto& to = gradients.each[index];
  const int rows = from.rows / blocks(index), begin = block * rows;
  const float scale = from.scale ? from.scale[block] : 1.f;
  const int column = threadIdx.x % p.in;
  const float norm_weight = norm.weight ? norm.weight[column] : 1.f;
  const float norm_bias = norm.bias ? norm.bias[column] : 0.f;
  float along = 0, to_weight = 0, to_bias = 0;
#pragma unroll 4
  for (int row = begin + threadIdx.x / p.in; row < begin + rows; row += kUnpackThreads / p.in) {
    const float sum = sums[(first + row) * p.in + column], b = dbias[first + row];
    const float weight = from.weight[row * p.in + column];
    const float d = sum * norm_weight + b * norm_bias;
    to.weight[row * p.in + column] = scale * d;
    along += d * weight;
    to_weight += scale * weight * sum;
    to_bias += scale * weight * b;
  }
  if (dnorm_weight) atomicAdd(dnorm_weight + column, to_weight);
  if (dnorm_bias) atomicAdd(dnorm_bias + column, to_bias);
  if (!to.scale) return;
  along = group_sum<32>(along);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = along;
  __syncthreads();
  if (threadIdx.x > 0) return;
  along = 0;
  for (const float part : parts) along += part;
  to.scale[block] = along;
}

}  // namespace

void pack_route_weights(Stream stream, const Projections<const float>& p,
                        const NormParameters& norm, const RouteWeights& packed) {
  const int raw = p.rows();
  launch(stream, {padded_raw(raw), kThreads}, pack_weights, p, norm, packed, raw);
  check_launch("pack_route_weights");
}

void unpack_route_gradients(Stream stream, const Projections<const float>& p,
                            const NormParameters& norm, const float* sums, const float* dbias,
                            const Projections<float>& gradients, float* dnorm_weight,
                            float* dnorm_bias) {
  int blocks = 0;
  for (int i = 0; i < p.count; ++i) blocks += p.each[i].scale ? p.each[i].scales : p.each[i].rows;
  launch(stream, {blocks, kUnpackThreads}, unpack_gradients, p, norm, sums, dbias, gradients,
         dnorm_weight, dnorm_bias);
  check_launch("unpack_route_gradients");
}

template <class T>
void sum_rows(Stream stream, const T* x, T* sums, int64_t rows, int64_t columns) {
  if (columns == 0) return;
  constexpr int threads = 64;  // small blocks: more multiprocessors share the columns
  launch(stream, {static_cast<unsigned>((columns + threads - 1) / threads), threads}, add_rows<T>,
         x, sums, rows, columns);
  check_launch("sum_rows");
}

template <class T, class A>
void convert_and_sum(Stream stream, const T* x, A* y, T* sums, int64_t rows, int64_t columns) {
  cudaMemsetAsync(sums, 0, static_cast<size_t>(columns) * sizeof(T), stream);
  if (rows == 0) return;
  launch(stream, {kBlocksForSums, kThreads, static_cast<size_t>(columns) * sizeof(T)},
         convert<T, A>, x, y, sums, rows, static_cast<int>(columns));
  check_launch("convert_and_sum");
}

template <class T, class A>
void pack_projections(Stream stream, const Projections<const T>& p, A* packed, T* bias) {
  launch(stream, {static_cast<unsigned>(p.rows()), kRowThreads}, pack<T, A>, p, packed, bias);
  check_launch("pack_projections");
}

template <class T>
void unpack_projection_gradients(Stream stream, const Projections<const T>& p, const T* dpacked,
                                 const Projections<T>& gradients) {
  int scales = 0;
  for (int i = 0; i < p.count; ++i) scales += p.each[i].scales;
  launch(stream, {static_cast<unsigned>(scales), kScaleThreads}, unpack<T>, p, dpacked, gradients);
  check_launch("unpack_projection_gradients");
}

template void pack_projections(Stream, const Projections<const float>&, float*, float*);
template void pack_projections(Stream, const Projections<const float>&, BFloat16*, float*);
template void pack_projections(Stream, const Projections<const double>&, double*, double*);
template void sum_rows(Stream, const float*, float*, int64_t, int64_t);
template void sum_rows(Stream, const double*, double*, int64_t, int64_t);
template void convert_and_sum(Stream, const float*, float*, float*, int64_t, int64_t);
template void convert_and_sum(Stream, const float*, BFloat16*, float*, int64_t, int64_t);
template void convert_and_sum(Stream, const double*, double*, double*, int64_t, int64_t);
template void unpack_projection_gradients(Stream, const Projections<const float>&, const float*,
                                          const Projections<float>&);
template void unpack_projection_gradients(Stream, const Projections<const double>&, const double*,
                                          const Projections<double>&);

}  // namespace geores::kernels
