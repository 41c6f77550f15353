// nvcc: -prec-div=false
#include "geores/kernels/routed/token_routes.h"

#include "geores/kernels/cuda/matrix.cuh"
#include "geores/kernels/routed/entry_routes.cuh"
#include "geores/kernels/streams/streams.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kStreams = kRoutedStreams, kWarps = kThreads / 32;

// How a block divides its tokens, with streams of D values. In products, warps share the rows. In
// operations on whole tokens, a group of lanes has a token. A token's routes are made by 4 or 16
// lanes.
template <int D>
struct Tile {
  using L = Columns<4, D / 4, 1>;
  static constexpr int kWidth = kStreams * D, kTokens = D == 32 ? 32 : 16;
  static constexpr int kRows = kTokens / 16;  // operands of 16 rows in a product
  static constexpr int kGroups = kThreads / L::kGroup, kRounds = kTokens / kGroups;
  // Blocks per multiprocessor: more of them hide more latency, but each gets fewer registers.
  static constexpr int kForwardBlocks = D == 32 ? 4 : 3, kBackwardBlocks = D == 32 ? 3 : 2;
  // A row in shared memory; padded, so that pairs lie in different banks.
  static constexpr int kFloats = kWidth + 8;
};

// The shared memory of a block of the forward kernel.
template <int D, class E>
struct ForwardMemory {
  using S = Tile<D>;
  static constexpr int kStride = E::kRaw / 16 * 16 + 8;  // so that pairs lie in different banks
  BFloat16 z[S::kTokens * Rows<S::kWidth>::kStride];
  float partial[kWarps][S::kTokens][kStride];
  float raw[S::kTokens][E::kRaw], made[S::kTokens][RouteValues::kCount + 1];
};

// Calls f(row) for each token of the block, in the E::kLanes lanes that make its routes.
template <class E, int Tokens, class F>
__device__ inline void for_each_route(F&& f) {
  static_assert(Tokens * E::kLanes % 32 == 0);  // whole warps
#pragma unroll
  for (int row = static_cast<int>(threadIdx.x) / E::kLanes; row < Tokens;
       row += kThreads / E::kLanes)
    f(row);
}

template <int D, int Tiles, class E>
__global__ void __launch_bounds__(kThreads, Tile<D>::kForwardBlocks)
    token_route(TokenRouteForward p, typename E::Routes routes, int64_t tokens) {
  wait_for_previous();
  using S = Tile<D>;
  using L = typename S::L;
  constexpr int outputs = E::kRaw / 8, steps = S::kWidth / 16 / kWarps;
  GEORES_SHARED_BYTES(memory);
  auto& shared = *reinterpret_cast<ForwardMemory<D, E>*>(memory);
  const Rows<S::kWidth> z{shared.z};
  const int64_t first = static_cast<int64_t>(blockIdx.x) * S::kTokens;
  const int lane = threadIdx.x % L::kGroup, group = threadIdx.x / L::kGroup;
  const int warp = threadIdx.x / 32;

  Token<kStreams, L, float> x[S::kRounds];
#pragma unroll
  for (int round = 0; round < S::kRounds; ++round)
    x[round].load(p.x + min(first + round * S::kGroups + group, tokens - 1) * S::kWidth, lane, D);
#pragma unroll
  for (int round = 0; round < S::kRounds; ++round) {
    const int row = round * S::kGroups + group;
    auto v = x[round];
    float mean = 0, squares = 0;
    if (p.norm.kind == NormKind::layer) {
      v.for_each([&](int i, int c) { mean += v.at[i][c]; });
      mean = group_sum<L::kGroup>(mean) / S::kWidth;
    }
    v.for_each([&](int i, int c) {
      v.at[i][c] -= mean;
      squares += v.at[i][c] * v.at[i][c];
    });
    const float inverse = 1.f / sqrtf(group_sum<L::kGroup>(squares) / S::kWidth + p.norm.eps);
    v.for_each([&](int i, int c) { v.at[i][c] *= inverse; });
    v.store(z.row(row), lane, D);
    if (first + row < tokens) {
      v.store(p.z + (first + row) * S::kWidth, lane, D);
      if (lane == 0) p.statistics[first + row] = {mean, inverse};
    }
  }
  __syncthreads();

  {  // Each warp multiplies its part of the columns.
    Result c[S::kRows][outputs];
    const int matrix = threadIdx.x % 32 / 8;
    const auto* fragments = reinterpret_cast<const uint2*>(p.weights.forward) + threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < steps; ++k) {
      const int step = warp * steps + k;
      uint2 b[outputs];
#pragma unroll
      for (int n = 0; n < outputs; ++n) b[n] = fragments[(step * outputs + n) * 32];
#pragma unroll
      for (int m = 0; m < S::kRows; ++m) {
        Left a;
        load_matrices<false>(
            a.at, z.row(m * 16 + matrix % 2 * 8 + threadIdx.x % 8) + step * 16 + matrix / 2 * 8);
#pragma unroll
        for (int n = 0; n < outputs; ++n) multiply_add(c[m][n], a, b[n].x, b[n].y);
      }
    }
    const Place place;
#pragma unroll
    for (int m = 0; m < S::kRows; ++m)
#pragma unroll
      for (int n = 0; n < outputs; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          *reinterpret_cast<float2*>(shared.partial[warp][m * 16 + 8 * half + place.g] + n * 8 +
                                     2 * place.t) =
              make_float2(c[m][n].at[2 * half], c[m][n].at[2 * half + 1]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < S::kTokens * E::kRaw; i += kThreads) {
    const int row = i / E::kRaw, column = i % E::kRaw;
    float sum = p.weights.bias[column];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared.partial[w][row][column];
    shared.raw[row][column] = sum;
    if (first + row < tokens) p.raw[first * E::kRaw + i] = sum;
  }
  __syncthreads();
  for_each_route<E, S::kTokens>(
      [&](int row) { E(shared.raw[row], routes).forward(shared.made[row]); });
  __syncthreads();
  for (int i = threadIdx.x; i < S::kTokens * 16; i += kThreads)
    if (first + i / 16 < tokens) p.res[first * 16 + i] = shared.made[i / 16][i % 16];
  if (const int row = threadIdx.x / kStreams, i = threadIdx.x % kStreams;
      row < S::kTokens && first + row < tokens) {
    p.read[(first + row) * kStreams + i] = shared.made[row][RouteValues::kRead + i];
    p.write[(first + row) * kStreams + i] = shared.made[row][RouteValues::kWrite + i];
  }

  Token<Tiles, L, float> weight;
  weight.load_parameters(p.read_norm.weight, lane, D, 1.f);
#pragma unroll
  for (int round = 0; round < S::kRounds; ++round) {
    const int row = round * S::kGroups + group;
    float c[L::kHeld], mean = 0, squares = 0;
    collect(shared.made[row] + RouteValues::kRead, x[round], c);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) mean += c[i];
    mean = group_sum<L::kGroup>(mean) / D;
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) {
      c[i] -= mean;
      squares += c[i] * c[i];
    }
    const float inverse = 1.f / sqrtf(group_sum<L::kGroup>(squares) / D + p.read_norm.eps);
    if (first + row >= tokens) continue;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      float out[L::kHeld];
#pragma unroll
      for (int i = 0; i < L::kHeld; ++i) out[i] = c[i] * inverse * weight.at[tile][i];
      L::store(out, p.h + ((first + row) * Tiles + tile) * D, lane, D);
    }
    if (lane == 0) p.read_statistics[first + row] = {mean, inverse};
  }
}

// The shared memory of a block of the backward kernel.
template <int D, int Tiles, class E>
struct BackwardMemory {
  using S = Tile<D>;
  static constexpr int kSteps = (E::kRaw + 15) / 16;
  BFloat16 z[S::kTokens * Rows<S::kWidth>::kStride];
  BFloat16 draw[S::kTokens * Rows<kSteps * 16>::kStride];
  float dout[S::kTokens][S::kFloats];
  float dc[S::kTokens][D + 8];
  float weight[Tiles * D], dweight[kWarps][Tiles * D];  // of the norm of the sublayer's input
  float raw[S::kTokens][E::kRaw], res[S::kTokens][16], read[S::kTokens][4];
  float dmade[S::kTokens][RouteValues::kCount];
  float sums[kWarps][S::kTokens][2];  // over a warp's columns: Σ dz and Σ dz · z
  float inverse[S::kTokens];
  float dbias[E::kRaw];
};

// Adds the values of a warp's groups to the warp's own sums.
template <int Tiles, class L>
__device__ inline void add_to(float* sums, const Token<Tiles, L, float>& held) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    float all[L::kHeld];
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) all[i] = sum_over_groups<L::kGroup>(held.at[tile][i]);
    if (lane >= L::kGroup) continue;
    auto* place = reinterpret_cast<float4*>(sums + (tile * L::kGroup + lane) * 4);
    const auto before = *place;
    *place =
        make_float4(before.x + all[0], before.y + all[1], before.z + all[2], before.w + all[3]);
  }
}

template <int D, int Tiles, class E>
__global__ void __launch_bounds__(kThreads, Tile<D>::kBackwardBlocks)
    token_route_back(TokenRouteBackward p, typename E::Routes routes, int64_t tokens) {
  wait_for_previous();
  using S = Tile<D>;
  using L = typename S::L;
  using Memory = BackwardMemory<D, Tiles, E>;
  constexpr int raw_steps = Memory::kSteps, columns = S::kWidth / kWarps, pieces = columns / 8;
  GEORES_SHARED_BYTES(memory);
  auto& shared = *reinterpret_cast<Memory*>(memory);
  const Rows<S::kWidth> z{shared.z};
  const Rows<raw_steps * 16> draw{shared.draw};
  const int lane = threadIdx.x % L::kGroup, group = threadIdx.x / L::kGroup;
  const int warp = threadIdx.x / 32;
  const Place place;

  for (int i = threadIdx.x; i < E::kRaw; i += kThreads) shared.dbias[i] = 0;
  float dbias[E::kHeld] = {};
  if constexpr (E::kRaw % 16 != 0)  // zeros that pad the product
    for (int i = threadIdx.x; i < S::kTokens * 16; i += kThreads)
      if (i % 16 >= E::kRaw % 16) draw.row(i / 16)[E::kRaw / 16 * 16 + i % 16] = {0};
  for (int i = threadIdx.x; i < Tiles * D; i += kThreads) {
    shared.weight[i] = p.read_norm.weight ? p.read_norm.weight[i] : 1.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) shared.dweight[w][i] = 0;
  }
  __syncthreads();

  for (int64_t first = static_cast<int64_t>(blockIdx.x) * S::kTokens; first < tokens;
       first += static_cast<int64_t>(gridDim.x) * S::kTokens) {
    const int count = static_cast<int>(min(tokens - first, static_cast<int64_t>(S::kTokens)));
    copy_async(&shared.raw[0][0], p.raw + first * E::kRaw, count * E::kRaw);
    copy_async(&shared.res[0][0], p.res + first * 16, count * 16);
    copy_async(&shared.read[0][0], p.read + first * kStreams, count * kStreams);

    // A group has one token: the gradient of its sublayer input, and the inner products for its
    // routes.
#pragma unroll
    for (int round = 0; round < S::kRounds; ++round) {
      const int row = round * S::kGroups + group;
      const bool there = first + row < tokens;
      const auto t = min(first + row, tokens - 1);
      Token<kStreams, L, float> x, dout;
      Token<Tiles, L, float> g;
      float c[L::kHeld], dc[L::kHeld];
      x.load(p.x + t * S::kWidth, lane, D);
      dout.load(p.dout + t * S::kWidth, lane, D);
      g.load(p.dh + t * Tiles * D, lane, D);
      const auto s = p.statistics[t];
      dout.store(shared.dout[row], lane, D);
      collect(p.read + t * kStreams, x, c);
      Token<Tiles, L, float> weight, dweight = {};
      weight.load(shared.weight, lane, D);
      collected_norm_back<Tiles, L>(c, p.read_statistics[t], g, weight, there, D, dweight, dc);
      add_to(shared.dweight[warp], dweight);
      L::store(dc, shared.dc[row], lane, D);
      float along[kStreams] = {};
      if constexpr (E::kMixes) {
        float products[kStreams * kStreams] = {};
        add_inner_products(dout, x, products);
        SharedSums<L::kGroup, 16, float>(products).store(shared.dmade[row], lane);
      }
      x.for_each([&](int j, int i) { along[j] += x.at[j][i] * dc[i]; });
      SharedSums<L::kGroup, 4, float>(along).store(shared.dmade[row] + RouteValues::kRead, lane);
      if (lane < kStreams)
        shared.dmade[row][RouteValues::kWrite + lane] = p.dwrite[t * kStreams + lane];
      x.for_each([&](int j, int i) { x.at[j][i] = (x.at[j][i] - s.mean) * s.inverse; });
      x.store(z.row(row), lane, D);
      if (lane == 0) shared.inverse[row] = s.inverse;
    }
    wait_for_copies();
    __syncthreads();

    for_each_route<E, S::kTokens>([&](int row) {
      float d[E::kHeld];
      E(shared.raw[row], routes).backward(shared.dmade[row], d);
      const bool there = row < count;
#pragma unroll
      for (int k = 0; k < E::kHeld; ++k) {
        const auto rounded = As<BFloat16>::from(there ? d[k] : 0.f);
        draw.row(row)[E::place(k)] = rounded;
        if (!there) continue;
        p.draw[(first + row) * E::kRaw + E::place(k)] = rounded;
        dbias[k] += d[k];
      }
    });
    __syncthreads();

    // dz = draw W. Each warp has a part of the columns and keeps it in registers to the end.
    Result dz[S::kRows][pieces];
    {
      Left a[S::kRows][raw_steps];
#pragma unroll
      for (int m = 0; m < S::kRows; ++m) draw.left(m * 16, a[m]);
      const auto* fragments = reinterpret_cast<const uint2*>(p.weights.backward) +
                              warp * pieces * raw_steps * 32 + threadIdx.x % 32;
#pragma unroll
      for (int n = 0; n < pieces; ++n)
#pragma unroll
        for (int k = 0; k < raw_steps; ++k) {
          const auto b = fragments[(n * raw_steps + k) * 32];
#pragma unroll
          for (int m = 0; m < S::kRows; ++m) multiply_add(dz[m][n], a[m][k], b.x, b.y);
        }
    }
    const auto z_at = [&](int row, int n) {
      return *reinterpret_cast<const __nv_bfloat162*>(z.row(row) + warp * columns + n * 8 +
                                                      2 * place.t);
    };
#pragma unroll
    for (int m = 0; m < S::kRows; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = m * 16 + 8 * half + place.g;
        float sum = 0, sum_z = 0;
#pragma unroll
        for (int n = 0; n < pieces; ++n) {
          const auto value = __bfloat1622float2(z_at(row, n));
          const float low = dz[m][n].at[2 * half], high = dz[m][n].at[2 * half + 1];
          sum += low + high;
          sum_z += low * value.x + high * value.y;
        }
        sum = row_sum(sum);  // over the four lanes that share the row
        sum_z = row_sum(sum_z);
        if (place.t == 0) {
          shared.sums[warp][row][0] = sum;
          shared.sums[warp][row][1] = sum_z;
        }
      }
    __syncthreads();

    // dx_j = Σ_i res_ij dout_i + read_j dc + the gradient through the norm of dz.
    const int stream = warp * columns / D, column = warp * columns % D + 2 * place.t;
#pragma unroll
    for (int m = 0; m < S::kRows; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = m * 16 + 8 * half + place.g;
        float sum = 0, sum_z = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          sum += shared.sums[w][row][0];
          sum_z += shared.sums[w][row][1];
        }
        sum = p.norm.kind == NormKind::layer ? sum / S::kWidth : 0.f;
        sum_z /= S::kWidth;
        const float inverse = shared.inverse[row], read = shared.read[row][stream];
        float res[kStreams];
#pragma unroll
        for (int i = 0; i < kStreams; ++i) res[i] = shared.res[row][i * kStreams + stream];
        if (first + row >= tokens) continue;
        float* to = p.dx + (first + row) * S::kWidth + stream * D + column;
#pragma unroll
        for (int n = 0; n < pieces; ++n) {
          const auto value = __bfloat1622float2(z_at(row, n));
          const auto dc = *reinterpret_cast<const float2*>(shared.dc[row] + column + n * 8);
          float low = inverse * (dz[m][n].at[2 * half] - sum - value.x * sum_z) + read * dc.x;
          float high = inverse * (dz[m][n].at[2 * half + 1] - sum - value.y * sum_z) + read * dc.y;
          const auto dout_at = [&](int i) {
            return *reinterpret_cast<const float2*>(shared.dout[row] + i * D + column + n * 8);
          };
          if constexpr (E::kMixes) {
#pragma unroll
            for (int i = 0; i < kStreams; ++i) {
              const auto d = dout_at(i);
              low += res[i] * d.x;
              high += res[i] * d.y;
            }
          } else {
            const auto d = dout_at(stream);
            low += d.x;
            high += d.y;
          }
          *reinterpret_cast<float2*>(to + n * 8) = make_float2(low, high);
        }
      }
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < E::kHeld; ++k) {
    dbias[k] = sum_over_groups<E::kLanes>(dbias[k]);
    if (threadIdx.x % 32 < E::kLanes) atomicAdd(shared.dbias + E::place(k), dbias[k]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < Tiles * D; i += kThreads) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared.dweight[w][i];
    atomicAdd(p.dread_weight + i, sum);
  }
  for (int i = threadIdx.x; i < E::kRaw; i += kThreads) atomicAdd(p.dbias + i, shared.dbias[i]);
}

template <class Routes>
struct EntryOf;
template <>
struct EntryOf<CayleyRoutes<float>> {
  using E = CayleyLane;
  static constexpr int kTiles = 1;
};
template <>
struct EntryOf<GuardedRoutes<float>> {
  using E = GuardedLane;
  static constexpr int kTiles = kStreams;
};

template <>
struct EntryOf<SoftmaxRoutes> {
  using E = SoftmaxLane;
  static constexpr int kTiles = 1;
};

template <class F>
void with_stream_width(int64_t d, F&& f) {
  if (d == 32)
    f(std::integral_constant<int, 32>());
  else if (d == 64)
    f(std::integral_constant<int, 64>());
  else
    f(std::integral_constant<int, 128>());
}

template <int D>
int64_t blocks_of(int64_t tokens) {
  return (tokens + Tile<D>::kTokens - 1) / Tile<D>::kTokens;
}

}  // namespace

template <class Routes>
void token_route_forward(CudaStream stream, const TokenRouteForward& p, const Routes& routes,
                         int64_t tokens, int64_t d) {
  using Of = EntryOf<Routes>;
  with_stream_width(d, [&](auto width) {
    constexpr int D = width.value;
    launch(stream, {blocks_of<D>(tokens), kThreads, sizeof(ForwardMemory<D, typename Of::E>)},
           token_route<D, Of::kTiles, typename Of::E>, p, routes, tokens);
  });
  check_launch("token_route_forward");
}

template <class Routes>
void token_route_backward(CudaStream stream, const TokenRouteBackward& p, const Routes& routes,
                          int64_t tokens, int64_t d) {
  using Of = EntryOf<Routes>;
  with_stream_width(d, [&](auto width) {
    constexpr int D = width.value;
    constexpr int64_t at_once = kBlocksForSums / 2 * (Tile<D>::kBackwardBlocks);
    launch(stream,
           {std::min(blocks_of<D>(tokens), at_once), kThreads,
            sizeof(BackwardMemory<D, Of::kTiles, typename Of::E>)},
           token_route_back<D, Of::kTiles, typename Of::E>, p, routes, tokens);
  });
  check_launch("token_route_backward");
}

#define GEORES_INSTANTIATE(Routes)                                                                \
  template void token_route_forward(CudaStream, const TokenRouteForward&, const Routes&, int64_t, \
                                    int64_t);                                                     \
  template void token_route_backward(CudaStream, const TokenRouteBackward&, const Routes&,        \
                                     int64_t, int64_t);
GEORES_INSTANTIATE(CayleyRoutes<float>)
GEORES_INSTANTIATE(GuardedRoutes<float>)
GEORES_INSTANTIATE(SoftmaxRoutes)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
