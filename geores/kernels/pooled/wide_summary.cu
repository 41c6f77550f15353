#include "geores/kernels/pooled/wide_summary.h"

#include "geores/kernels/pooled/running_sums.cuh"
#include "geores/kernels/streams/wide_mix.h"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kTile = 32;  // columns of a block: whole sectors of memory, many blocks

// A block's columns and tokens: a tile of a sequence or, without running sums, of any `length`
// tokens.
struct Tile {
  int64_t first, end;  // tokens
  int column, columns;

  __device__ Tile(int64_t tokens, int64_t length, int width) {
    const int tiles = (width + kTile - 1) / kTile;
    first = blockIdx.x / tiles * length;
    end = min(first + length, tokens);
    column = static_cast<int>(blockIdx.x % tiles) * kTile;
    columns = min(kTile, width - column);
  }
};

// entropies: those of the tokens come in, their running means go out; null, or no running sums: they
// are not touched.
template <bool Running, class L, class T, class A>
__global__ void __launch_bounds__(kScanThreads)
    tile_forward(const T* x, const A* branch, T* total, A* means, T* entropies, int64_t tokens,
                 int64_t length, int width) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  constexpr int groups = kScanThreads / L::kGroup;
  const int lane = threadIdx.x % L::kGroup;
  const Tile tile(tokens, length, width);
  RunningSums<1, L, T> sums(memory, Running ? tile.columns : 0);
  const auto at = [&](int64_t t) { return t * width + tile.column; };
  const auto load = [&](int64_t t, Token<1, L, T>& in, Token<1, L, T>& added) {
    const auto offset = at(min(t, tile.end - 1));
    in.load(x + offset, lane, tile.columns);
    if (branch) added.load(branch + offset, lane, tile.columns);
  };
  Token<1, L, T> next, next_added;
  auto t = tile.first + threadIdx.x / L::kGroup;
  load(t, next, next_added);
  for (int64_t begin = tile.first; begin < tile.end; begin += groups, t += groups) {
    auto in = next, added = next_added;
    if (begin + groups < tile.end) load(t + groups, next, next_added);  // loads in the background
    const bool there = t < tile.end;
    if (branch) {
      in.for_each([&](int i, int c) { in.at[i][c] += added.at[i][c]; });
      if (there) in.store(total + at(t), lane, tile.columns);
    }
    if constexpr (Running) {
      const bool with_entropy = entropies && tile.column == 0;
      T entropy = with_entropy && there ? entropies[t] : T(0);
      if (!there) in.for_each([&](int i, int c) { in.at[i][c] = T(0); });
      sums.add(in, entropy);  // all lanes of the token have read its entropy before it ends
      const T share = T(1) / T(t - tile.first + 1);
      in.for_each([&](int i, int c) { in.at[i][c] *= share; });
      if (with_entropy && there && lane == 0) entropies[t] = entropy * share;
    }
    if (there && means) in.store(means + at(t), lane, tile.columns);
  }
}

// The same from the end of the sequence to its beginning.
template <bool Running, class L, class T, class A>
__global__ void __launch_bounds__(kScanThreads)
    tile_backward(const T* dmeans, T* dentropies, const T* skip, T* dx, A* dbranch, int64_t tokens,
                  int64_t length, int width) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  constexpr int groups = kScanThreads / L::kGroup;
  const int lane = threadIdx.x % L::kGroup;
  const Tile tile(tokens, length, width);
  RunningSums<1, L, T> sums(memory, Running ? tile.columns : 0);
  const auto load = [&](int64_t t, Token<1, L, T>& in, Token<1, L, T>& around) {
    const auto offset = max(t, tile.first) * width + tile.column;
    in.load(dmeans + offset, lane, tile.columns);
    if (skip) around.load(skip + offset, lane, tile.columns);
  };
  Token<1, L, T> next, next_around = {};
  auto t = tile.end - 1 - threadIdx.x / L::kGroup;
  load(t, next, next_around);
  for (int64_t stop = tile.end; stop > tile.first; stop -= groups, t -= groups) {
    const bool there = t >= tile.first;
    auto gradient = next, around = next_around;
    if (stop - groups > tile.first) load(t - groups, next, next_around);
    if constexpr (Running) {
      const bool with_entropy = dentropies && tile.column == 0;
      const T share = there ? T(1) / T(t - tile.first + 1) : T(0);
      T dentropy = with_entropy && there ? dentropies[t] * share : T(0);
      gradient.for_each([&](int i, int c) { gradient.at[i][c] *= share; });
      sums.add(gradient, dentropy);
      if (with_entropy && there && lane == 0) dentropies[t] = dentropy;
    }
    gradient.for_each([&](int i, int c) { gradient.at[i][c] += around.at[i][c]; });
    if (!there) continue;
    gradient.store(dx + t * width + tile.column, lane, tile.columns);
    if (dbranch) gradient.store(dbranch + t * width + tile.column, lane, tile.columns);
  }
}

// f(whether sums run on, columns, tokens of a block, grid).
template <class T, class F>
void with_tiles(int64_t length, const StreamShape& s, F&& f) {
  const auto width = s.n * s.d;
  const auto with_columns = [&]<class L>(L columns) {
    const auto grid = [&](int64_t span, size_t shared) {
      return Grid{(s.tokens + span - 1) / span * ((width + kTile - 1) / kTile), kScanThreads,
                  shared};
    };
    if (length > 0) {
      f(std::true_type(), columns, length, grid(length, RunningSums<1, L, T>::bytes(kTile)));
    } else {
      constexpr int64_t span = 4 * kScanThreads / L::kGroup;
      f(std::false_type(), columns, span, grid(span, 0));
    }
  };
  if (s.tokens == 0) return;
  if constexpr (sizeof(T) == 4)
    if (width % 4 == 0) return with_columns(Columns<4, kTile / 4, 1>());
  with_columns(Columns<1, kTile, 1>());
}

}  // namespace

template <class T, class A>
void wide_summary_forward(CudaStream stream, const T* x, const A* branch, T* total, A* means,
                          T* entropies, int64_t length, const StreamShape& s) {
  const auto tiles = [&] {
    with_tiles<T>(length, s, [&]<class L>(auto running, L, int64_t span, const Grid& grid) {
      launch(stream, grid, tile_forward<running.value, L, T, A>, x, branch, total, means, entropies,
             s.tokens, span, static_cast<int>(s.n * s.d));
    });
  };
  // Entropies need the sum with the branch, and running means of entropies need the entropies: with
  // both, the sum is made by itself.
  const bool running = length > 0;
  if (!entropies) {
    tiles();
  } else if (!branch) {
    wide_entropy_forward(stream, x, entropies, s);
    if (running || means) tiles();
  } else if (!running) {
    tiles();
    wide_entropy_forward(stream, static_cast<const T*>(total), entropies, s);
  } else {
    wide_summary_forward<T, A>(stream, x, branch, total, nullptr, nullptr, 0, s);
    wide_summary_forward<T, A>(stream, total, nullptr, nullptr, means, entropies, length, s);
  }
  check_launch("wide_summary_forward");
}

template <class T, class A>
void wide_summary_backward(CudaStream stream, const T* x, const T* dmeans, T* dentropies,
                           const T* skip, T* dx, A* dbranch, int64_t length, const StreamShape& s) {
  with_tiles<T>(length, s, [&]<class L>(auto running, L, int64_t span, const Grid& grid) {
    launch(stream, grid, tile_backward<running.value, L, T, A>, dmeans, dentropies, skip, dx,
           dentropies ? nullptr : dbranch, s.tokens, span, static_cast<int>(s.n * s.d));
  });
  if (dentropies)
    wide_entropy_backward(stream, x, static_cast<const T*>(dentropies), static_cast<const T*>(dx),
                          dx, dbranch, s);
  check_launch("wide_summary_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                            \
  template void wide_summary_forward(CudaStream, const T*, const A*, T*, A*, T*, int64_t,   \
                                     const StreamShape&);                                   \
  template void wide_summary_backward(CudaStream, const T*, const T*, T*, const T*, T*, A*, \
                                      int64_t, const StreamShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
