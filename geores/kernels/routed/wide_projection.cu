#include "geores/kernels/routed/wide_projection.h"

#include "geores/kernels/routed/wide_half_matrices.cuh"
#include "geores/manifold/sigmoid_route.h"

namespace geores::kernels {
namespace {

using namespace device;

// Aligned rows that 16 bytes divide have kernels by matrix instructions (wide_matrices.cuh,
// wide_half_matrices.cuh), those of double apart; all others those of this file.
template <class S, class... Pointers>
bool multiplies_by_matrices(const WideProjectionShape& s, Pointers... pointers) {
  return sizeof(S) <= 4 && s.width * static_cast<int64_t>(sizeof(S)) % 16 == 0 &&
         ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// Forward. A block keeps the weights of `count` projections for a slice of the columns in shared
// memory and goes through rows: four rows in each warp, so that a weight that is loaded serves four
// products. The slices' sums are added afterwards, always in the same order.
constexpr int kWarps = 4, kBlock = 32 * kWarps, kRowsOfWarp = 4;
constexpr size_t kWeightBytes = 72 * 1024;  // three blocks fit on a multiprocessor

// The columns of a slice, a multiple of a warp's: as many as fit, and all slices alike.
template <class T>
int64_t slice_width(int64_t width, int held) {
  constexpr int64_t step = 128;
  const auto most =
      static_cast<int64_t>(kWeightBytes / (static_cast<size_t>(held) * sizeof(T))) / step * step;
  const auto slices = (width + most - 1) / most;
  return ((width + slices - 1) / slices + step - 1) / step * step;
}

// The number of projections that a kernel holds at once: one of 8, 16, 24, 32.
int held_of(int64_t count) {
  return static_cast<int>(std::min(kProjectedAtOnce, (count + 7) / 8 * 8));
}

template <class T>
int64_t slices_of(const WideProjectionShape& s) {
  const auto slice = slice_width<T>(s.width, held_of(s.count));
  return (s.width + slice - 1) / slice;
}

template <int Held, class T, class S>
__global__ void __launch_bounds__(kBlock, sizeof(T) == 4 && Held <= 24 ? 3 : 1)
    project(Project<T, S> p) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* weights = reinterpret_cast<T*>(memory);  // (Held, slice), 0 beyond the row and the count
  const int lane = threadIdx.x % 32, slice = static_cast<int>(blockIdx.x) % p.slices,
            tile = static_cast<int>(blockIdx.x) / p.slices % p.tiles,
            group = static_cast<int>(blockIdx.x) / (p.slices * p.tiles),
            groups = static_cast<int>(gridDim.x) / (p.slices * p.tiles);
  const int first = slice * p.slice, first_projection = tile * Held;
  const int columns = min(p.slice, p.width - first), here = min(Held, p.count - first_projection);
  for (int i = threadIdx.x; i < Held * p.slice; i += kBlock) {
    const int projection = i / p.slice, column = i % p.slice;
    weights[i] =
        projection < here && column < columns
            ? p.w[static_cast<int64_t>(first_projection + projection) * p.width + first + column]
            : T(0);
  }
  __syncthreads();

  constexpr int64_t rows_of_block = kWarps * kRowsOfWarp;
  for (int64_t begin = group * rows_of_block; begin < p.rows; begin += groups * rows_of_block) {
    const auto row = begin + threadIdx.x / 32 * kRowsOfWarp;  // the warp's first
    if (row >= p.rows) continue;
    const int there = static_cast<int>(min(static_cast<int64_t>(kRowsOfWarp), p.rows - row));
    const S* from[kRowsOfWarp];  // rows beyond the last repeat it; their sums are not stored
#pragma unroll
    for (int k = 0; k < kRowsOfWarp; ++k)
      from[k] = p.x + (row + min(k, there - 1)) * p.width + first;
    T sums[kRowsOfWarp][Held] = {}, squares[kRowsOfWarp] = {};
    T in[kRowsOfWarp], next[kRowsOfWarp];
    const auto load = [&](int column) {
      if (column < columns)
#pragma unroll
        for (int k = 0; k < kRowsOfWarp; ++k) next[k] = number(from[k][column]);
    };
    load(lane);
    for (int column = lane; column < columns; column += 32) {
#pragma unroll
      for (int k = 0; k < kRowsOfWarp; ++k) {
        in[k] = next[k];
        squares[k] += in[k] * in[k];
      }
      load(column + 32);  // on its way while the products are made
#pragma unroll
      for (int r = 0; r < Held; ++r) {
        const T weight = weights[r * p.slice + column];
#pragma unroll
        for (int k = 0; k < kRowsOfWarp; ++k) sums[k][r] += in[k] * weight;
      }
    }
    constexpr int padded = Held == 24 ? 32 : Held, lanes = 32 / padded;
#pragma unroll
    for (int k = 0; k < kRowsOfWarp; ++k) {
      T all[padded] = {};
#pragma unroll
      for (int r = 0; r < Held; ++r) all[r] = sums[k][r];
      const SharedSums<32, padded, T> total(all);
      const T square = group_sum<32>(squares[k]);
      if (k >= there) continue;
      T* to = p.partial + (slice * p.rows + row + k) * (p.count + 1);
      if (lane % lanes == 0 && lane / lanes < here)
        to[first_projection + lane / lanes] = total.at[0];
      if (lane == 0 && tile == 0) to[p.count] = square;
    }
  }
}

// Where projection r of a row belongs.
template <class T>
__device__ inline T& part_at(const SigmoidParts<T>& p, int64_t row, int r, int count) {
  if (r < p.n) return p.read[row * p.n + r];
  if (r < 2 * p.n) return p.write[row * p.n + r - p.n];
  return p.others[row * (count - 2 * p.n) + r - 2 * p.n];
}

template <class T>
__global__ void finish_projection(const T* partial, const T* bias, T eps, T* plain, T* raw,
                                  T* inverse, int slices, int64_t rows, int width, int count,
                                  bool normalized, SigmoidParts<T> parts, T offset) {
  wait_for_previous();
  const auto at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * count) return;
  const auto row = at / count;
  const int r = static_cast<int>(at % count);
  T sum = 0, squares = 0;
  for (int slice = 0; slice < slices; ++slice) {
    const T* from = partial + (slice * rows + row) * (count + 1);
    sum += from[r];
    squares += from[count];
  }
  const T scale = normalized ? T(1) / sqrt(squares / T(width) + eps) : T(1);
  plain[at] = sum * scale;
  const T value = sum * scale + bias[r];
  if (parts.n == 0)
    raw[at] = value;
  else
    part_at(parts, row, r, count) = r < parts.n       ? manifold::read_route(value) + offset
                                    : r < 2 * parts.n ? manifold::write_route(value)
                                                      : value;
  if (r == 0) inverse[row] = scale;
}

// Backward. With g = draw/rms(x), the gradient of a row is Wᵀ g + k x, k = −⟨draw, plain⟩ /
// (width · rms(x)²), and that of W is the sum of g xᵀ. Rows that are not normalized have rms(x) = 1, k = 0.

// factors (rows, count + 1): g, then k. A warp for each row; sums of draw are added to dbias.
template <class T>
__global__ void projection_factors(const T* draw, const T* plain, const T* inverse, T* factors,
                                   T* dbias, int64_t rows, int width, int count, bool normalized,
                                   const T* bias, SigmoidParts<const T> parts) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* sums = reinterpret_cast<T*>(memory);  // (warps, count)
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  T* mine = sums + warp * count;  // each lane has its own of them
  for (int r = lane; r < count; r += 32) mine[r] = T(0);
  constexpr int at_once = 4;  // rows whose values are on their way together
  const auto step = static_cast<int64_t>(gridDim.x) * warps;
  for (auto first = static_cast<int64_t>(blockIdx.x) * warps + warp; first < rows;
       first += at_once * step) {
    T scale[at_once], along[at_once] = {};
#pragma unroll
    for (int k = 0; k < at_once; ++k) scale[k] = inverse[min(first + k * step, rows - 1)];
    for (int r = lane; r < count; r += 32) {
      T d[at_once], p[at_once];
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        const auto row = first + k * step;
        d[k] = row >= rows    ? T(0)
               : parts.n == 0 ? draw[row * count + r]
                              : part_at(parts, row, r, count);
        p[k] = row < rows ? plain[row * count + r] : T(0);
      }
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        const auto row = first + k * step;
        if (r < 2 * parts.n) {
          const T part = manifold::sigmoid(p[k] + bias[r]);
          d[k] *= (r < parts.n ? T(1) : T(2)) * part * (T(1) - part);
        }
        along[k] += d[k] * p[k];
        mine[r] += d[k];
        if (row < rows) factors[row * (count + 1) + r] = d[k] * scale[k];
      }
    }
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const auto row = first + k * step;
      const T sum = group_sum<32>(along[k]);
      if (lane == 0 && row < rows)
        factors[row * (count + 1) + count] =
            normalized ? -sum * scale[k] * scale[k] / T(width) : T(0);
    }
  }
  __syncthreads();
  for (int r = threadIdx.x; r < count; r += blockDim.x) {
    T sum = 0;
    for (int w = 0; w < warps; ++w) sum += sums[w * count + r];
    atomicAdd(dbias + r, sum);
  }
}

constexpr int kStagedRows = 32, kBatch = 4;
static_assert(kStagedRows % kBatch == 0);  // rows that are staged beyond the last are 0

// Blocks of project_back at once on a multiprocessor, as many as registers allow.
template <int Held, class T>
constexpr int kBackBlocks = sizeof(T) == 8 ? 1
                            : Held <= 24   ? 3
                                           : 2;

// A thread has one column: its weights and their sums of gradients stay in registers.
template <int Held, class T, class S>
__global__ void __launch_bounds__(kThreads, (kBackBlocks<Held, T>))
    project_back(ProjectBack<T, S> p) {
  wait_for_previous();
  constexpr int stride = Held + 4;
  __shared__ __align__(16) T staged[kStagedRows * stride];  // g, then k
  const int column = static_cast<int>(blockIdx.x) % p.columns * kThreads + threadIdx.x,
            group = static_cast<int>(blockIdx.x) / p.columns,
            groups = static_cast<int>(gridDim.x) / p.columns;
  const bool there = column < p.width;
  const int here = min(Held, p.count - p.first);
  T weight[Held], dweight[Held];
#pragma unroll
  for (int r = 0; r < Held; ++r) {
    weight[r] =
        there && r < here ? p.w[static_cast<int64_t>(p.first + r) * p.width + column] : T(0);
    dweight[r] = T(0);
  }
  for (auto begin = static_cast<int64_t>(group) * kStagedRows; begin < p.rows;
       begin += static_cast<int64_t>(groups) * kStagedRows) {
    const int rows = static_cast<int>(min(static_cast<int64_t>(kStagedRows), p.rows - begin));
    __syncthreads();
    for (int i = threadIdx.x; i < kStagedRows * (Held + 1); i += kThreads) {
      const int row = i / (Held + 1), r = i % (Held + 1);
      const T* from = p.factors + (begin + row) * (p.count + 1);
      T value = 0;
      if (row < rows) {
        if (r < here) value = from[p.first + r];
        if (r == Held && p.first == 0) value = from[p.count];
      }
      staged[row * stride + r] = value;
    }
    __syncthreads();
    if (!there) continue;
    const auto at = begin * p.width + column;
    for (int first = 0; first < rows; first += kBatch) {
      T x[kBatch], sum[kBatch];  // loaded together: a store between two loads would keep them apart
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const auto offset = at + static_cast<int64_t>(first + k) * p.width;
        const bool exists = first + k < rows;
        x[k] = exists ? number(p.x[offset]) : T(0);
        sum[k] = exists && p.skip ? number(p.skip[offset]) : T(0);
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const T* g = staged + (first + k) * stride;
        sum[k] += g[Held] * x[k];
#pragma unroll
        for (int r = 0; r < Held; ++r) {
          sum[k] += g[r] * weight[r];
          dweight[r] += g[r] * x[k];
        }
        if (first + k < rows)
          p.dx[at + static_cast<int64_t>(first + k) * p.width] = As<S>::from(sum[k]);
      }
    }
  }
  if (!there) return;
#pragma unroll
  for (int r = 0; r < Held; ++r)
    if (r < here)
      atomicAdd(p.dw + static_cast<int64_t>(p.first + r) * p.width + column, dweight[r]);
}

// f(projections held at once).
template <class F>
void with_held(int64_t count, F&& f) {
  const int held = held_of(count);
  if (held == 8)
    f(std::integral_constant<int, 8>());
  else if (held == 16)
    f(std::integral_constant<int, 16>());
  else if (held == 24)
    f(std::integral_constant<int, 24>());
  else
    f(std::integral_constant<int, 32>());
}

}  // namespace

template <class T>
int64_t wide_projection_values(const WideProjectionShape& s) {
  return slices_of<T>(s) * s.rows * (s.count + 1);
}

template <class T>
int64_t wide_projection_slices(const WideProjectionShape& s) {
  return slices_of<T>(s);
}

template <class T, class S>
void wide_projection_sums(CudaStream stream, const S* x, const T* w, T* partial,
                          const WideProjectionShape& s) {
  if (s.rows == 0) return;
  with_held(s.count, [&](auto held) {
    const bool matrices = multiplies_by_matrices<S>(s, x);
    const int64_t rows_of_block = matrices ? kMatrixWarps * kMatrixRows : kWarps * kRowsOfWarp,
                  blocks = matrices ? 2 : 3;  // on a multiprocessor
    const auto slice = slice_width<T>(s.width, held), slices = slices_of<T>(s),
               tiles = (s.count + held - 1) / held, parts = slices * tiles;
    const auto groups = std::max<int64_t>(1, std::min((s.rows + rows_of_block - 1) / rows_of_block,
                                                      blocks * multiprocessors() / parts));
    const Project<T, S> p{.x = x,
                          .w = w,
                          .partial = partial,
                          .rows = s.rows,
                          .width = static_cast<int>(s.width),
                          .count = static_cast<int>(s.count),
                          .slice = static_cast<int>(slice),
                          .slices = static_cast<int>(slices),
                          .tiles = static_cast<int>(tiles)};
    const auto shared = [&](int64_t row) { return static_cast<size_t>(held * row) * sizeof(T); };
    if constexpr (sizeof(T) == 4)
      if (matrices) {
        const Grid grid{groups * parts, kMatrixBlock,
                        shared(matrix_stride(static_cast<int>(slice)))};
        if constexpr (sizeof(S) == 2)
          return launch(stream, grid, project_half_by_matrices<held.value / 8>, p);
        else
          return launch(stream, grid, project_by_matrices<held.value / 8>, p);
      }
    launch(stream, {groups * parts, kBlock, shared(slice)}, project<held.value, T, S>, p);
  });
  check_launch("wide_projection_sums");
}

template <class T, class S>
void wide_projection_forward(CudaStream stream, const S* x, const T* w, const T* bias, T eps,
                             T* partial, T* plain, T* raw, T* inverse, const WideProjectionShape& s,
                             const SigmoidParts<T>& parts, T offset) {
  if (s.rows == 0) return;
  wide_projection_sums(stream, x, w, partial, s);
  launch(stream, {(s.rows * s.count + kThreads - 1) / kThreads, kThreads}, finish_projection<T>,
         partial, bias, eps, plain, raw, inverse, static_cast<int>(slices_of<T>(s)), s.rows,
         static_cast<int>(s.width), static_cast<int>(s.count), s.normalized, parts, offset);
  check_launch("wide_projection_forward");
}

template <class T, class S>
void wide_projection_backward(CudaStream stream, const WideProjectionBackward<T, S>& p,
                              const WideProjectionShape& s) {
  if (s.rows == 0) return;
  constexpr int64_t warps = kThreads / 32;
  launch(stream,
         {std::min<int64_t>((s.rows + warps - 1) / warps, blocks_for_sums()), kThreads,
          static_cast<size_t>(warps * s.count) * sizeof(T)},
         projection_factors<T>, p.draw, p.plain, p.inverse, p.factors, p.dbias, s.rows,
         static_cast<int>(s.width), static_cast<int>(s.count), s.normalized, p.bias, p.parts);
  check_launch("wide_projection_backward");
  wide_projection_from_factors(stream, p, s);
}

template <class T, class S>
void wide_projection_from_factors(CudaStream stream, const WideProjectionBackward<T, S>& p,
                                  const WideProjectionShape& s) {
  if (s.rows == 0) return;
  with_held(s.count, [&](auto held) {
    const bool matrices = multiplies_by_matrices<S>(s, p.x, p.skip, p.dx, p.dw);
    constexpr int tiles = held.value / 8;
    const int64_t threads = matrices ? kBackBlock<tiles> : kThreads;  // each has a column
    const int64_t rows_at_once = matrices ? kChunk<tiles> : kStagedRows;
    const int64_t blocks = !matrices        ? kBackBlocks<held.value, T>
                           : sizeof(S) == 2 ? kHalfBackBlocksAtOnce<tiles>
                                            : kBackBlocksAtOnce<tiles>;
    const auto columns = (s.width + threads - 1) / threads;
    const auto groups = std::max<int64_t>(1, std::min((s.rows + rows_at_once - 1) / rows_at_once,
                                                      blocks * multiprocessors() / columns));
    for (int64_t first = 0; first < s.count; first += held) {
      const ProjectBack<T, S> part{.x = p.x,
                                   .w = p.w,
                                   .factors = p.factors,
                                   .skip = first == 0 ? p.skip : p.dx,
                                   .dx = p.dx,
                                   .dw = p.dw,
                                   .rows = s.rows,
                                   .width = static_cast<int>(s.width),
                                   .count = static_cast<int>(s.count),
                                   .first = static_cast<int>(first),
                                   .columns = static_cast<int>(columns)};
      const Grid grid{columns * groups, threads};
      if constexpr (sizeof(T) == 4)
        if (matrices) {
          if constexpr (sizeof(S) == 2)
            launch(stream, grid, project_half_back_by_matrices<tiles>, part);
          else if (s.rounded)
            launch(stream, grid, project_back_by_matrices<tiles, InOnePart>, part);
          else
            launch(stream, grid, project_back_by_matrices<tiles, InTwoParts>, part);
          continue;
        }
      launch(stream, grid, project_back<held.value, T, S>, part);
    }
  });
  check_launch("wide_projection_from_factors");
}

#define GEORES_INSTANTIATE(T)                                             \
  template int64_t wide_projection_values<T>(const WideProjectionShape&); \
  template int64_t wide_projection_slices<T>(const WideProjectionShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

#define GEORES_INSTANTIATE(T, S)                                                                 \
  template void wide_projection_sums(CudaStream, const S*, const T*, T*,                         \
                                     const WideProjectionShape&);                                \
  template void wide_projection_from_factors(CudaStream, const WideProjectionBackward<T, S>&,    \
                                             const WideProjectionShape&);                        \
  template void wide_projection_forward(CudaStream, const S*, const T*, const T*, T, T*, T*, T*, \
                                        T*, const WideProjectionShape&, const SigmoidParts<T>&,  \
                                        T);                                                      \
  template void wide_projection_backward(CudaStream, const WideProjectionBackward<T, S>&,        \
                                         const WideProjectionShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
