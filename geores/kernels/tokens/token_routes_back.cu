// nvcc: -prec-div=false
#include "geores/kernels/tokens/token_routes.h"

#include "geores/kernels/tokens/token_tile.cuh"

namespace geores::kernels {
namespace {

using namespace device;

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
  float inverse[S::kTokens][E::kByStream ? kStreams : 1];
  float dbias[E::kAllSums];
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
    auto* sum = reinterpret_cast<float4*>(sums + (tile * L::kGroup + lane) * 4);
    const auto before = *sum;
    *sum = make_float4(before.x + all[0], before.y + all[1], before.z + all[2], before.w + all[3]);
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
  const FragmentLane fragment;

  for (int i = threadIdx.x; i < E::kAllSums; i += kThreads) shared.dbias[i] = 0;
  float dbias[E::kSums] = {};
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
      constexpr int normalized = E::kByStream ? kStreams : 1;
      RowStatistics<float> s[normalized];
#pragma unroll
      for (int j = 0; j < normalized; ++j) s[j] = p.statistics[t * normalized + j];
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
      x.for_each([&](int j, int i) {
        const auto& of = s[E::kByStream ? j : 0];
        x.at[j][i] = (x.at[j][i] - of.mean) * of.inverse;
      });
      x.store(z.row(row), lane, D);
      if (lane == 0)
#pragma unroll
        for (int j = 0; j < normalized; ++j) shared.inverse[row][j] = s[j].inverse;
    }
    wait_for_copies();
    __syncthreads();

    for_each_route<E, S::kTokens>([&](int row) {
      float d[E::kHeld];
      const E lanes(shared.raw[row], routes);
      lanes.backward(shared.dmade[row], shared.res[row], d);
      const bool there = row < count;
      if (there) lanes.add_sums(shared.dmade[row], d, dbias);
#pragma unroll
      for (int k = 0; k < E::kHeld; ++k) {
        const auto rounded = As<BFloat16>::from(there ? d[k] : 0.f);
        draw.row(row)[E::index(k)] = rounded;
        if (!there) continue;
        p.draw[(first + row) * E::kRaw + E::index(k)] = rounded;
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
                                                      2 * fragment.t);
    };
#pragma unroll
    for (int m = 0; m < S::kRows; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = m * 16 + 8 * half + fragment.g;
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
        if (fragment.t == 0) {
          shared.sums[warp][row][0] = sum;
          shared.sums[warp][row][1] = sum_z;
        }
      }
    __syncthreads();

    // dx_j = Σ_i res_ij dout_i + read_j dc + the gradient through the norm of dz.
    const int stream = warp * columns / D, column = warp * columns % D + 2 * fragment.t;
#pragma unroll
    for (int m = 0; m < S::kRows; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = m * 16 + 8 * half + fragment.g;
        float sum = 0, sum_z = 0;
        // The warps whose columns are normalized together.
        constexpr int together = E::kByStream ? kWarps / kStreams : kWarps;
#pragma unroll
        for (int k = 0; k < together; ++k) {
          const int w = E::kByStream ? stream * together + k : k;
          sum += shared.sums[w][row][0];
          sum_z += shared.sums[w][row][1];
        }
        constexpr int width = S::kWidth / kWarps * together;
        sum = p.norm.kind == NormKind::layer ? sum / width : 0.f;
        sum_z /= width;
        const float inverse = shared.inverse[row][E::kByStream ? stream : 0],
                    read = shared.read[row][stream];
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
  for (int k = 0; k < E::kSums; ++k) {
    dbias[k] = sum_over_groups<E::kLanes>(dbias[k]);
    if (threadIdx.x % 32 < E::kLanes) atomicAdd(shared.dbias + E::sum_index(k), dbias[k]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < Tiles * D; i += kThreads) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared.dweight[w][i];
    atomicAdd(p.dread_weight + i, sum);
  }
  for (int i = threadIdx.x; i < E::kAllSums; i += kThreads)
    atomicAdd(E::sum_target(routes, p.dbias, i), shared.dbias[i]);
}

}  // namespace

template <class Routes>
void token_route_backward(CudaStream stream, const TokenRouteBackward& p, const Routes& routes,
                          int64_t tokens, int64_t d) {
  using E = typename LanesOf<Routes>::E;
  constexpr int tiles = read_tiles(Routes());
  with_stream_width(d, [&](auto width) {
    constexpr int D = width.value;
    const int64_t at_once = multiprocessors() * (Tile<D>::kBackwardBlocks);
    launch(stream,
           {std::min(blocks_of<D>(tokens), at_once), kThreads, sizeof(BackwardMemory<D, tiles, E>)},
           token_route_back<D, tiles, E>, p, routes, tokens);
  });
  check_launch("token_route_backward");
}

#define GEORES_INSTANTIATE(Routes)                                                         \
  template void token_route_backward(CudaStream, const TokenRouteBackward&, const Routes&, \
                                     int64_t, int64_t);
GEORES_FOR_ROUTES(GEORES_INSTANTIATE)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
