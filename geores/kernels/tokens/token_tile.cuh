// Shared by the kernels of a token's path to its sublayer and back (token_routes.h).
#pragma once

#include "geores/kernels/cuda/matrix.cuh"
#include "geores/kernels/streams/streams.cuh"
#include "geores/kernels/tokens/entry_routes.cuh"
#include "geores/kernels/tokens/sigmoid_routes.cuh"
#include "geores/kernels/tokens/tanh_routes.cuh"

namespace geores::kernels::device {

inline constexpr int kStreams = kRoutedStreams, kWarps = kThreads / 32;

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
  // A row in shared memory; padded, so that pairs are in different banks.
  static constexpr int kFloats = kWidth + 8;
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

// The lanes that make routes.
template <class Routes>
struct LanesOf;
template <>
struct LanesOf<CayleyRoutes<float>> {
  using E = CayleyLane;
};
template <>
struct LanesOf<GuardedRoutes<float>> {
  using E = GuardedLane;
};
template <>
struct LanesOf<SoftmaxRoutes> {
  using E = SoftmaxLane;
};
template <>
struct LanesOf<SinkhornRoutes> {
  using E = SinkhornLane;
};
template <>
struct LanesOf<PermutationRoutes> {
  using E = PermutationLane;
};
template <>
struct LanesOf<SphereRoutes> {
  using E = SphereLane;
};
template <>
struct LanesOf<TanhTokenRoutes> {
  using E = TanhLane;
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

// The routes that are compiled.
#define GEORES_FOR_ROUTES(f)                                                        \
  f(CayleyRoutes<float>) f(GuardedRoutes<float>) f(SoftmaxRoutes) f(SinkhornRoutes) \
      f(PermutationRoutes) f(SphereRoutes) f(TanhTokenRoutes)

}  // namespace geores::kernels::device
