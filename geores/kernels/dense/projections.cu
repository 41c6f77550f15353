#include "geores/kernels/dense/projections.h"

#include "geores/kernels/cuda/matrix.cuh"
#include "geores/kernels/tokens/token_routes.h"

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

// A block has a piece of a row: there are few rows, and they are long.
constexpr int kPackedAtOnce = 512;

template <class T>
int64_t pieces_of(const Projections<T>& p) {
  return p.rows() * static_cast<int64_t>((p.in + kPackedAtOnce - 1) / kPackedAtOnce);
}

struct PieceOfRow {
  int row, begin, end;

  __device__ explicit PieceOfRow(int in) {
    const int pieces = (in + kPackedAtOnce - 1) / kPackedAtOnce;
    row = static_cast<int>(blockIdx.x) / pieces;
    begin = static_cast<int>(blockIdx.x) % pieces * kPackedAtOnce;
    end = min(begin + kPackedAtOnce, in);
  }
};

template <class T, class A>
__global__ void pack(Projections<const T> p, A* packed, T* bias) {
  wait_for_previous();
  const PieceOfRow piece(p.in);
  int row = piece.row;
  const auto& from = projection_of(p, row);
  const T scale = from.scale ? from.scale[scale_of(from, row)] : T(1);
#pragma unroll
  for (int k = 0; k < kPackedAtOnce / kRowThreads; ++k) {
    const int i = piece.begin + k * kRowThreads + static_cast<int>(threadIdx.x);
    if (i < piece.end)
      packed[static_cast<int64_t>(piece.row) * p.in + i] =
          As<A>::from(scale * from.weight[static_cast<int64_t>(row) * p.in + i]);
  }
  if (threadIdx.x == 0 && piece.begin == 0) bias[piece.row] = from.bias[row];
}

// A piece's part of the scale's gradient is added to those of the scale's other pieces.
template <class T>
__global__ void unpack(Projections<const T> p, const T* dpacked, const T* dbias,
                       Projections<T> gradients) {
  wait_for_previous();
  const PieceOfRow piece(p.in);
  int row = piece.row, row_of_gradient = row;
  const auto& from = projection_of(p, row);
  const auto& to = projection_of(gradients, row_of_gradient);
  const T scale = from.scale ? from.scale[scale_of(from, row)] : T(1);
  const T *weight = from.weight + static_cast<int64_t>(row) * p.in,
          *dweight = dpacked + static_cast<int64_t>(piece.row) * p.in;
  T* out = to.weight + static_cast<int64_t>(row) * p.in;
  T sum = 0;
#pragma unroll
  for (int k = 0; k < kPackedAtOnce / kThreads; ++k) {
    const int i = piece.begin + k * kThreads + static_cast<int>(threadIdx.x);
    if (i >= piece.end) continue;
    const T d = dweight[i];
    out[i] += scale * d;
    sum += d * weight[i];
  }
  if (threadIdx.x == 0 && piece.begin == 0) to.bias[row] += dbias[piece.row];
  if (!to.scale) return;
  sum = block_sum(sum);
  if (threadIdx.x == 0) atomicAdd(to.scale + scale_of(from, row), sum);
}

constexpr int kConvertedAtOnce = 4;

// A thread has one column of several rows at a time.
template <class T, class A>
__global__ void convert(const T* x, A* y, T* sums, int64_t rows, int columns) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* shared = reinterpret_cast<T*>(memory);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) shared[i] = T(0);
  __syncthreads();
  const int teams = blockDim.x / columns, team = threadIdx.x / columns;
  const int column = threadIdx.x % columns;
  if (team < teams) {
    T sum = 0;
    const int64_t step = static_cast<int64_t>(gridDim.x) * teams;
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * teams + team; first < rows;
         first += kConvertedAtOnce * step) {
      T held[kConvertedAtOnce];  // all are read before the first is written
#pragma unroll
      for (int i = 0; i < kConvertedAtOnce; ++i) {
        const auto row = first + i * step;
        held[i] = row < rows ? x[row * columns + column] : T(0);
      }
#pragma unroll
      for (int i = 0; i < kConvertedAtOnce; ++i) {
        const auto row = first + i * step;
        if (row < rows) y[row * columns + column] = As<A>::from(held[i]);
        sum += held[i];
      }
    }
    atomicAdd(shared + column, sum);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x) atomicAdd(sums + i, shared[i]);
}

constexpr int kColumnThreads = 64;  // small blocks, so that more multiprocessors share the columns
constexpr int kRowsAtOnce = 8, kRowsSummedAtOnce = 16;

template <class T>
__global__ void to_each(const T* x, const T* row, const T* bias, T* out, int64_t rows,
                        int64_t columns, int64_t period) {
  wait_for_previous();
  const int64_t parts = (columns + kColumnThreads - 1) / kColumnThreads;
  const auto column = blockIdx.x % parts * kColumnThreads + threadIdx.x;
  const auto first = blockIdx.x / parts * kRowsAtOnce;
  if (column >= columns) return;
  T held[kRowsAtOnce];  // all are read before the first is written: out may be x
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i)
    held[i] = first + i < rows ? x[(first + i) * columns + column] : T(0);
  const T more = row[column] + (bias ? bias[column % period] : T(0));
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i)
    if (first + i < rows) out[(first + i) * columns + column] = held[i] + more;
}

// A block has one position of kSequences sequences, a warp kSequencesEach of them, a lane four
// columns of each. Weights and inputs are in shared memory. They are read value by value, because
// both may start at any address.
constexpr int kSequencesEach = 8, kSequences = kSequencesEach * kThreads / 32, kColumnsAtOnce = 128;

template <int In>
__global__ void __launch_bounds__(kThreads, 2)
    product_to_each(const BFloat16* x, const BFloat16* w, const float* row, const float* bias,
                    float* y, int64_t sequences, int64_t length, int out) {
  wait_for_previous();
  __shared__ __align__(16) float weights[In][kColumnsAtOnce + 4];
  __shared__ __align__(16) float inputs[kSequences][In];
  const int64_t position = blockIdx.x % length, first = blockIdx.x / length * kSequences;
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * kSequencesEach;
  for (int i = threadIdx.x; i < kSequences * In; i += kThreads) {
    const auto sequence = first + i / In;
    inputs[i / In][i % In] =
        sequence < sequences ? number(x[(sequence * length + position) * In + i % In]) : 0.f;
  }
  for (int begin = 0; begin < out; begin += kColumnsAtOnce) {
    __syncthreads();
    for (int i = threadIdx.x; i < kColumnsAtOnce * In; i += kThreads)
      weights[i % In][i / In] = begin + i / In < out ? number(w[begin * In + i]) : 0.f;
    __syncthreads();
    const int column = begin + 4 * lane;
    if (column < out) {
      float more[4], sums[kSequencesEach][4] = {};
#pragma unroll
      for (int c = 0; c < 4; ++c) more[c] = row[position * out + column + c] + bias[column + c];
#pragma unroll 4
      for (int k = 0; k < In; ++k) {
        float factors[4];
        load_values<4>(&weights[k][4 * lane], factors);
#pragma unroll
        for (int i = 0; i < kSequencesEach; ++i)
#pragma unroll
          for (int c = 0; c < 4; ++c) sums[i][c] += inputs[own + i][k] * factors[c];
      }
#pragma unroll
      for (int i = 0; i < kSequencesEach; ++i) {
        const auto sequence = first + own + i;
#pragma unroll
        for (int c = 0; c < 4; ++c) sums[i][c] += more[c];
        if (sequence < sequences)
          store_values<4>(y + (sequence * length + position) * out + column, sums[i]);
      }
    }
  }
}

template <class T, class A>
__global__ void of_each(const T* dout, A* converted, T* drow, T* dbias, int64_t rows,
                        int64_t columns, int64_t period) {
  wait_for_previous();
  const auto column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  T sum = 0;
  for (int64_t first = 0; first < rows; first += kRowsSummedAtOnce) {
    T held[kRowsSummedAtOnce];
#pragma unroll
    for (int i = 0; i < kRowsSummedAtOnce; ++i)
      held[i] = first + i < rows ? dout[(first + i) * columns + column] : T(0);
#pragma unroll
    for (int i = 0; i < kRowsSummedAtOnce; ++i) {
      sum += held[i];
      if (converted && first + i < rows)
        converted[(first + i) * columns + column] = As<A>::from(held[i]);
    }
  }
  drow[column] += sum;
  if (dbias) atomicAdd(dbias + column % period, sum);
}

// One block for each row of W and for each row that pads it; `stored` of them are in `forward` too.
__global__ void pack_weights(Projections<const float> p, NormParameters norm, RouteWeights packed,
                             int raw, int stored) {
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
    if (o < stored)
      packed.forward[fragment_index(c / 16 * (stored / 8) + o / 8, c % 16, o % 8)] = value;
    packed.backward[fragment_index(c / 8 * (static_cast<int>(gridDim.x) / 16) + o / 16, o % 16,
                                   c % 8)] = value;
  }
  sum = group_sum<32>(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0 || o >= stored) return;
  sum = bias ? *bias : 0.f;
  for (const float part : sums) sum += part;
  packed.bias[o] = sum;
}

// One block for each scale and its rows, so that no other block adds to that scale, or one block
// for each row. A thread stays with one column: the width divides the number of threads.
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
    to.weight[row * p.in + column] += scale * d;
    if (column == 0) to.bias[row] += b;
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
  to.scale[block] += along;
}

}  // namespace

void pack_route_weights(CudaStream stream, const Projections<const float>& p,
                        const NormParameters& norm, const RouteWeights& packed) {
  const int raw = p.rows();
  launch(stream, {padded_raw(raw), kThreads}, pack_weights, p, norm, packed, raw,
         static_cast<int>(stored_raw(raw)));
  check_launch("pack_route_weights");
}

void unpack_route_gradients(CudaStream stream, const Projections<const float>& p,
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
void add_rows(CudaStream stream, const T* x, const T* row, const T* bias, T* out, int64_t rows,
              int64_t columns, int64_t period) {
  const auto blocks =
      (columns + kColumnThreads - 1) / kColumnThreads * ((rows + kRowsAtOnce - 1) / kRowsAtOnce);
  launch(stream, {blocks, kColumnThreads}, to_each<T>, x, row, bias, out, rows, columns, period);
  check_launch("add_rows");
}

void product_and_rows(CudaStream stream, const BFloat16* x, const BFloat16* w, const float* row,
                      const float* bias, float* y, const ProductAndRowsShape& s) {
  const auto kernel = s.in == 8 ? product_to_each<8> : product_to_each<16>;
  launch(stream, {s.length * ((s.sequences + kSequences - 1) / kSequences), kThreads}, kernel, x, w,
         row, bias, y, s.sequences, s.length, static_cast<int>(s.out));
  check_launch("product_and_rows");
}

template <class T, class A>
void sum_rows(CudaStream stream, const T* dout, A* converted, T* drow, T* dbias, int64_t rows,
              int64_t columns, int64_t period) {
  launch(stream, {(columns + kColumnThreads - 1) / kColumnThreads, kColumnThreads}, of_each<T, A>,
         dout, converted, drow, dbias, rows, columns, period);
  check_launch("sum_rows");
}

template <class T, class A>
void convert_and_sum(CudaStream stream, const T* x, A* y, T* sums, int64_t rows, int64_t columns) {
  if (rows == 0) return;
  launch(stream, {blocks_for_sums(), kThreads, static_cast<size_t>(columns) * sizeof(T)},
         convert<T, A>, x, y, sums, rows, static_cast<int>(columns));
  check_launch("convert_and_sum");
}

template <class T, class A>
void pack_projections(CudaStream stream, const Projections<const T>& p, A* packed, T* bias) {
  launch(stream, {pieces_of(p), kRowThreads}, pack<T, A>, p, packed, bias);
  check_launch("pack_projections");
}

template <class T>
void unpack_projection_gradients(CudaStream stream, const Projections<const T>& p, const T* dpacked,
                                 const T* dbias, const Projections<T>& gradients) {
  launch(stream, {pieces_of(p), kThreads}, unpack<T>, p, dpacked, dbias, gradients);
  check_launch("unpack_projection_gradients");
}

template void pack_projections(CudaStream, const Projections<const float>&, float*, float*);
template void pack_projections(CudaStream, const Projections<const float>&, BFloat16*, float*);
template void pack_projections(CudaStream, const Projections<const double>&, double*, double*);
template void add_rows(CudaStream, const float*, const float*, const float*, float*, int64_t,
                       int64_t, int64_t);
template void add_rows(CudaStream, const double*, const double*, const double*, double*, int64_t,
                       int64_t, int64_t);
template void sum_rows(CudaStream, const float*, float*, float*, float*, int64_t, int64_t, int64_t);
template void sum_rows(CudaStream, const float*, BFloat16*, float*, float*, int64_t, int64_t,
                       int64_t);
template void sum_rows(CudaStream, const double*, double*, double*, double*, int64_t, int64_t,
                       int64_t);
template void convert_and_sum(CudaStream, const float*, float*, float*, int64_t, int64_t);
template void convert_and_sum(CudaStream, const float*, BFloat16*, float*, int64_t, int64_t);
template void convert_and_sum(CudaStream, const double*, double*, double*, int64_t, int64_t);
template void unpack_projection_gradients(CudaStream, const Projections<const float>&, const float*,
                                          const float*, const Projections<float>&);
template void unpack_projection_gradients(CudaStream, const Projections<const double>&,
                                          const double*, const double*, const Projections<double>&);

}  // namespace geores::kernels
