// nvcc: -prec-div=false
#include "geores/kernels/tokens/token_routes.h"

#include "geores/kernels/tokens/token_tile.cuh"

namespace geores::kernels {
namespace {

using namespace device;

// The shared memory of a block of the forward kernel.
template <int D, class E>
struct ForwardMemory {
  using S = Tile<D>;
  static constexpr int kStride = E::kRaw / 16 * 16 + 8;  // so that pairs are in different banks
  BFloat16 z[S::kTokens * Rows<S::kWidth>::kStride];
  float partial[kWarps][S::kTokens][kStride];
  float raw[S::kTokens][E::kRaw], made[S::kTokens][RouteValues::kCount + 1];
};

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
    if constexpr (E::kByStream) {
#pragma unroll
      for (int i = 0; i < kStreams; ++i) {
        float squares = 0;
#pragma unroll
        for (int c = 0; c < L::kHeld; ++c) squares += v.at[i][c] * v.at[i][c];
        const float inverse = 1.f / sqrtf(group_sum<L::kGroup>(squares) / D + p.norm.eps);
#pragma unroll
        for (int c = 0; c < L::kHeld; ++c) v.at[i][c] *= inverse;
        if (lane == 0 && first + row < tokens)
          p.statistics[(first + row) * kStreams + i] = {0.f, inverse};
      }
    } else {
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
      if (lane == 0 && first + row < tokens) p.statistics[first + row] = {mean, inverse};
    }
    v.store(z.row(row), lane, D);
    if (first + row < tokens) v.store(p.z + (first + row) * S::kWidth, lane, D);
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
    const FragmentLane fragment;
#pragma unroll
    for (int m = 0; m < S::kRows; ++m)
#pragma unroll
      for (int n = 0; n < outputs; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          *reinterpret_cast<float2*>(shared.partial[warp][m * 16 + 8 * half + fragment.g] + n * 8 +
                                     2 * fragment.t) =
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

}  // namespace

template <class Routes>
void token_route_forward(CudaStream stream, const TokenRouteForward& p, const Routes& routes,
                         int64_t tokens, int64_t d) {
  using E = typename LanesOf<Routes>::E;
  constexpr int tiles = read_tiles(Routes());
  with_stream_width(d, [&](auto width) {
    constexpr int D = width.value;
    launch(stream, {blocks_of<D>(tokens), kThreads, sizeof(ForwardMemory<D, E>)},
           token_route<D, tiles, E>, p, routes, tokens);
  });
  check_launch("token_route_forward");
}

#define GEORES_INSTANTIATE(Routes)                                                                \
  template void token_route_forward(CudaStream, const TokenRouteForward&, const Routes&, int64_t, \
                                    int64_t);
GEORES_FOR_ROUTES(GEORES_INSTANTIATE)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
