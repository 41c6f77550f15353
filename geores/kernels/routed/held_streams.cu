#include "geores/kernels/routed/held.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kTile = 16;  // tokens that a cluster holds at a time, and the next ones on their way

// Sums over the columns of a token, from which the gradient of `read` follows. With g = dh times the norm's
// weight and z the normalized row: Σ g, Σ g z, and for each stream x_j Σ x_j g, Σ x_j, Σ x_j z; filled up to
// an even number.
template <int N>
constexpr int kSums = (2 + 3 * N + 1) / 2 * 2;

// The numbers of a token that are not of the size of the state, in the order in which they are staged. Behind
// the factors g come k and the means of g and of g z over the row.
template <int N, int Tiles>
struct Numbers {
  static constexpr int kRes = 0, kRead = N * N, kMean = kRead + N, kInverse = kMean + 1,
                       kPlain = kInverse + 1, kScale = kPlain + N, kFactors = kScale + 1,
                       kAlong = kFactors + 8 * Tiles, kMeanG = kAlong + 1, kMeanGz = kMeanG + 1,
                       kAll = kMeanGz + 1;
};

struct Held {
  HeldReadBackward p;
  int64_t tokens;
  int d, columns, count;  // columns: of a stream, for a block
};

// What a block keeps in shared memory. Distances are known to the compiler, which would otherwise keep every
// address in a register.
template <int N, int Tiles, int Blocks>
struct Memory {
  using Factors = StagedHalfFactors<Tiles, kTile>;
  static constexpr int kSteps = Factors::kSteps;
  // Lanes of four tokens and four runs of columns read 8 bytes each at once: tokens 8 banks apart do not
  // collide.
  static constexpr int kStream = kMostHeldColumns, kToken = N * kStream + 16, kRow = kStream + 8,
                       kBuffer = kTile * (2 * kToken + kRow);
  // Pieces of a thread: lanes read 8 bytes each at once, 2 banks apart.
  static constexpr int kWeights = N * Tiles * 4 + 1;
  static constexpr int kTileSums = kTile * kSums<N>, kNumbers = Numbers<N, Tiles>::kAll;

  uint2* weights;     // of a thread: (N, Tiles, 2, high and low)
  BFloat16* buffers;  // two: tokens of x, of dout, rows of dh
  Factors* factors;
  float *sums, *exchanged;  // (warps, tile, sums), (2, blocks, tile, sums)
  float* numbers;           // two: (tile, numbers)

  static __host__ __device__ int threads(int columns) { return (columns + 31) / 32 * 32; }

  static __host__ __device__ size_t bytes(int columns, int) {
    return (threads(columns) * kWeights + 1) / 2 * 2 * sizeof(uint2) +
           2 * kBuffer * sizeof(BFloat16) + sizeof(Factors) +
           (threads(columns) / 32 * kTileSums + 2 * Blocks * kTileSums + 2 * kTile * kNumbers) *
               sizeof(float);
  }

  __device__ Memory(unsigned char* at, int columns) {
    weights = reinterpret_cast<uint2*>(at);
    buffers = reinterpret_cast<BFloat16*>(weights + (threads(columns) * kWeights + 1) / 2 * 2);
    factors = reinterpret_cast<Factors*>(buffers + 2 * kBuffer);
    sums = reinterpret_cast<float*>(factors + 1);
    exchanged = sums + threads(columns) / 32 * kTileSums;
    numbers = exchanged + 2 * Blocks * kTileSums;
  }
};

// Lane (g, t) has tokens t, t + 4, t + 8 and t + 12 of a tile. In products they are rows 4t to 4t + 3.
__device__ inline int token_of(int t, int i) { return 4 * i + t; }
__device__ inline int row_of(int token) { return 4 * (token % 4) + token / 4; }

// The assembler would load the gradients of all streams at once, and keep them for the next one: it has no
// registers for that, and moves nothing across a meeting of the warp.
__device__ inline void in_order() {
#ifndef GEORES_EMULATED
  __syncwarp();
#endif
}

// Sums over the eight lanes with one t. Lanes exchange halves of what they have, so that a lane is left with
// half of the sums of one of its four tokens.
template <int Sums>
struct LaneSums {
  float two[2][Sums];  // of tokens i and i + 2, one of them

  __device__ void put(int i, const float (&first)[Sums], const float (&second)[Sums],
                      const Place& place) {
    const bool upper = place.g & 4;
#pragma unroll
    for (int k = 0; k < Sums; ++k)
      two[i][k] = (upper ? second[k] : first[k]) +
                  __shfl_xor_sync(kAllLanes, upper ? first[k] : second[k], 16);
  }

  // to: (tokens, Sums).
  __device__ void store(float* to, const Place& place) const {
    const bool upper = place.g & 4, next = place.g & 2, back = place.g & 1;
    float one[Sums];
#pragma unroll
    for (int k = 0; k < Sums; ++k)
      one[k] = (next ? two[1][k] : two[0][k]) +
               __shfl_xor_sync(kAllLanes, next ? two[0][k] : two[1][k], 8);
    to += token_of(place.t, 2 * upper + next) * Sums + back * (Sums / 2);
#pragma unroll
    for (int k = 0; k < Sums / 2; ++k)
      to[k] = (back ? one[k + Sums / 2] : one[k]) +
              __shfl_xor_sync(kAllLanes, back ? one[k] : one[k + Sums / 2], 4);
  }
};

// Starts to copy the block's columns of a tile; zeros beyond the last token.
template <int N, int Tiles, int Blocks>
__device__ inline void copy_tile(const Held& h, int64_t begin, int first, BFloat16* to) {
  using M = Memory<N, Tiles, Blocks>;
  const int pieces = h.columns / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * N * pieces; i += blockDim.x) {
    const int piece = i % pieces, stream = i / pieces % N, row = i / pieces / N;
    const bool there = begin + row < h.tokens;
    const auto at = there ? ((begin + row) * N + stream) * h.d + first + 8 * piece : 0;
    auto* place = to + row * M::kToken + stream * M::kStream + 8 * piece;
    copy_eight(place, h.p.x + at, there);
    copy_eight(place + kTile * M::kToken, h.p.dout + at, there);
  }
  for (int i = static_cast<int>(threadIdx.x); i < kTile * pieces; i += blockDim.x) {
    const int piece = i % pieces, row = i / pieces;
    const bool there = begin + row < h.tokens;
    copy_eight(to + 2 * kTile * M::kToken + row * M::kRow + 8 * piece,
               h.p.dh + (there ? (begin + row) * h.d + first + 8 * piece : 0), there);
  }
}

// Where number `which` of a token comes from; null: nowhere.
template <int N, int Tiles>
__device__ inline const float* number_of(const Held& h, int64_t t, int which) {
  using Of = Numbers<N, Tiles>;
  const auto& p = h.p;
  if (which < Of::kRead) return p.res + t * N * N + which;
  if (which < Of::kMean) return p.read + t * N + which - Of::kRead;
  if (which < Of::kPlain) {
    if (p.norm.none) return nullptr;
    return which == Of::kMean ? &p.statistics[t].mean : &p.statistics[t].inverse;
  }
  if (which < Of::kScale) return p.plain + t * h.count + which - Of::kPlain;
  if (which == Of::kScale) return p.inverse + t;
  const float* factors = p.factors + t * (h.count + 1);
  if (which == Of::kAlong) return factors + h.count;
  return which - Of::kFactors < h.count ? factors + which - Of::kFactors : nullptr;
}

// Starts to copy the numbers of a tile; zeros beyond the last token. Without a norm the mean is 0 and the inverse
// deviation 1.
template <int N, int Tiles>
__device__ inline void copy_numbers(const Held& h, int64_t begin, float* to) {
  using Of = Numbers<N, Tiles>;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * Of::kMeanG; i += blockDim.x) {
    const int token = i / Of::kMeanG, which = i % Of::kMeanG;
    float* place = to + token * Of::kAll + which;
    const bool there = begin + token < h.tokens;
    const float* from = number_of<N, Tiles>(h, there ? begin + token : 0, which);
    if (from == nullptr)
      *place = which == Of::kInverse ? 1.f : 0.f;
    else
#ifdef GEORES_EMULATED
      *place = there ? *from : 0.f;
#else
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(place)),
                   "l"(from), "r"(there ? 4 : 0)
                   : "memory");
#endif
  }
}

template <int N, int Tiles, int Blocks>
__global__ void __launch_bounds__(kMostHeldColumns, 1) held_back(Held h) {
  wait_for_previous();
  GEORES_SHARED_BYTES(shared);
  using M = Memory<N, Tiles, Blocks>;
  using Of = Numbers<N, Tiles>;
  using C = Cluster<Blocks>;
  using Columns = LoadedAhead<4, BFloat16>;
  constexpr int steps = M::kSteps, sums = kSums<N>;
  const M m(shared, h.columns);
  const auto& p = h.p;
  const Place place;
  const int threads = static_cast<int>(blockDim.x), me = static_cast<int>(threadIdx.x),
            lane = me % 32, warp = me / 32, rank = C::rank(), count = h.count, width = N * h.d;
  const int within = 32 * warp + 4 * place.g;    // of the block's columns
  const int column = rank * h.columns + within;  // of a stream
  const bool there = within < h.columns;

  // Weights of the lane's columns, eight projections at a time, as halves of left operands.
  const auto weights_at = [&](int j, int eight, int half) {
    return m.weights + me * M::kWeights + ((j * Tiles + eight) * 2 + half) * 2;
  };
#pragma unroll 1
  for (int j = 0; j < N; ++j)
#pragma unroll
    for (int eight = 0; eight < Tiles; ++eight)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto weights_of = [&](int c) {
          const auto weight = [&](int r) {
            return there && r < count ? p.w[static_cast<int64_t>(r) * width + j * h.d + column + c]
                                      : 0.f;
          };
          const int r = 8 * eight + 2 * place.t;
          return HalfPair(weight(r), weight(r + 1));
        };
        const auto first = weights_of(2 * half), second = weights_of(2 * half + 1);
        auto* to = weights_at(j, eight, half);
        to[0] = {first.high, second.high};
        to[1] = {first.low, second.low};
      }
  float norm_weight[4];
#pragma unroll
  for (int c = 0; c < 4; ++c)
    norm_weight[c] =
        p.norm.none || !there || !p.norm.norm.weight ? 1.f : p.norm.norm.weight[column + c];
  const bool layer = !p.norm.none && p.norm.norm.kind == NormKind::layer;

  // All projections of a tile as they lie in `factors`: those beyond `count` stay 0.
  for (int i = me; i < static_cast<int>(sizeof(*m.factors) / sizeof(uint4)); i += threads)
    reinterpret_cast<uint4*>(m.factors)[i] = {};

  Result dweight[N][Tiles][2];
  float dnorm[4] = {}, dbias = 0;
  const auto copy = [&](int64_t first_token, int buffer) {
    copy_tile<N, Tiles, Blocks>(h, first_token, rank * h.columns, m.buffers + buffer * M::kBuffer);
    copy_numbers<N, Tiles>(h, first_token, m.numbers + buffer * kTile * M::kNumbers);
    end_held_copies();
  };

  const auto clusters = static_cast<int64_t>(gridDim.x) / Blocks;
  const auto step = clusters * kTile;
  auto begin = static_cast<int64_t>(blockIdx.x) / Blocks * kTile;
  copy(begin, 0);
  C::meet();  // all blocks run: others may write into this one's memory
  for (int round = 0; begin < h.tokens; begin += step, ++round) {
    wait_for_held_copies();
    if (begin + step < h.tokens) copy(begin + step, (round + 1) % 2);
    float* const of_tile = m.numbers + round % 2 * kTile * M::kNumbers;
    for (int i = me; i < kTile * (count - N); i += threads) {
      const int token = i / (count - N), r = N + i % (count - N);
      m.factors->put(row_of(token), r, of_tile[token * M::kNumbers + Of::kFactors + r]);
    }

    const BFloat16* x = m.buffers + round % 2 * M::kBuffer;
    const BFloat16* dout = x + kTile * M::kToken;
    const BFloat16* dh = dout + kTile * M::kToken;
    const auto load = [&](const BFloat16* from, int token, int stream) {
      Columns to;
      to.load(from + token * M::kToken + stream * M::kStream + within);
      return to;
    };
    const auto load_row = [&](int token) {
      Columns to;
      to.load(dh + token * M::kRow + within);
      return to;
    };
    float* exchanged = m.exchanged + round % 2 * Blocks * M::kTileSums;

    const auto sums_of = [&](int i, float(&to)[sums]) {
      const int token = token_of(place.t, i);
      const float* own = of_tile + token * M::kNumbers;
#pragma unroll
      for (int k = 0; k < sums; ++k) to[k] = 0;
      if (!there) return;
      Columns in[N];
#pragma unroll
      for (int j = 0; j < N; ++j) in[j] = load(x, token, j);
      const auto g = load_row(token);
      const float mean = own[Of::kMean], inverse = own[Of::kInverse];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float z = 0;
#pragma unroll
        for (int j = 0; j < N; ++j) z += own[Of::kRead + j] * in[j][c];
        z = (z - mean) * inverse;
        const float gw = g[c] * norm_weight[c];
        to[0] += gw;
        to[1] += gw * z;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          to[2 + 3 * j] += in[j][c] * gw;
          to[3 + 3 * j] += in[j][c];
          to[4 + 3 * j] += in[j][c] * z;
        }
      }
    };
    {
      LaneSums<sums> mine;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float first[sums], second[sums];
        sums_of(i, first);
        sums_of(i + 2, second);
        mine.put(i, first, second, place);
      }
      mine.store(m.sums + warp * M::kTileSums, place);
    }
    __syncthreads();
    for (int i = me; i < M::kTileSums; i += threads) {
      float sum = 0;
      for (int w = 0; w < threads / 32; ++w) sum += m.sums[w * M::kTileSums + i];
#pragma unroll
      for (int to = 0; to < Blocks; ++to) C::store(exchanged + rank * M::kTileSums + i, to, sum);
    }
    C::meet();

    // Four lanes for each token: its gradients of `read`, of which all blocks need the factors.
    for (int i = me; i < 4 * kTile; i += threads) {
      const int token = i / 4, j = i % 4;
      float* own = of_tile + token * M::kNumbers;
      const auto sum = [&](int k) {
        float total = 0;
#pragma unroll
        for (int b = 0; b < Blocks; ++b) total += exchanged[b * M::kTileSums + token * sums + k];
        return total;
      };
      const float mean_g = layer ? sum(0) / h.d : 0.f, mean_gz = p.norm.none ? 0.f : sum(1) / h.d;
      float along = 0;
      const float scale = own[Of::kScale];
      if (j < N) {
        const float dread = own[Of::kInverse] *
                            (sum(2 + 3 * j) - mean_g * sum(3 + 3 * j) - mean_gz * sum(4 + 3 * j));
        const float part = own[Of::kRead + j] - p.offset, d = dread * part * (1.f - part);
        dbias += d;
        along = d * own[Of::kPlain + j];
        m.factors->put(row_of(token), j, d * scale);
      }
      along = quad_sum(along);
      if (j == 0) {
        own[Of::kAlong] -= along * scale * scale / width;
        own[Of::kMeanG] = mean_g;
        own[Of::kMeanGz] = mean_gz;
      }
    }
    __syncthreads();

    Columns in[N][4];
    float dc[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = token_of(place.t, i);
      const float* own = of_tile + token * M::kNumbers;
      Columns g{};
#pragma unroll
      for (int j = 0; j < N; ++j) in[j][i] = {};
      if (there) {
        g = load_row(token);
#pragma unroll
        for (int j = 0; j < N; ++j) in[j][i] = load(x, token, j);
      }
      const float mean = own[Of::kMean], inverse = own[Of::kInverse], mean_g = own[Of::kMeanG],
                  mean_gz = own[Of::kMeanGz];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float z = 0;
#pragma unroll
        for (int j = 0; j < N; ++j) z += own[Of::kRead + j] * in[j][i][c];
        z = (z - mean) * inverse;
        dnorm[c] += g[c] * z;
        dc[i][c] = inverse * (g[c] * norm_weight[c] - mean_g - z * mean_gz);
      }
    }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      in_order();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto firsts = [&](int i) {  // of two tokens, the first column of the pair
          return (in[j][i].at[half] & 0xffffu) | in[j][i + 1].at[half] << 16;
        };
        const auto seconds = [&](int i) {
          return in[j][i].at[half] >> 16 | (in[j][i + 1].at[half] & 0xffff0000u);
        };
        const Left left{{firsts(0), seconds(0), firsts(2), seconds(2)}};
#pragma unroll
        for (int n = 0; n < Tiles; ++n) {
          const auto four = m.factors->down[0][n][lane];
          multiply_add(dweight[j][n][half], left, four.z, four.w);
          multiply_add(dweight[j][n][half], left, four.x, four.y);
        }
      }
      Result through[2][2];  // of rows 2k and 2k + 1, columns 2 half and the next
#pragma unroll
      for (int s = 0; s < steps; ++s)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Left high{}, low{};
#pragma unroll
          for (int eight = 2 * s; eight < min(2 * s + 2, Tiles); ++eight) {
            const auto* from = weights_at(j, eight, half);
            const auto a = from[0], b = from[1];
            high.at[eight % 2 * 2] = a.x, high.at[eight % 2 * 2 + 1] = a.y;
            low.at[eight % 2 * 2] = b.x, low.at[eight % 2 * 2 + 1] = b.y;
          }
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const auto four = m.factors->across[0][k][s][lane];
            multiply_add(through[k][half], low, four.x, four.y);
            multiply_add(through[k][half], high, four.z, four.w);
            multiply_add(through[k][half], high, four.x, four.y);
          }
        }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = token_of(place.t, i);
        const float* own = of_tile + token * M::kNumbers;
        const float share = own[Of::kRead + j], along = own[Of::kAlong];
        float out[4];
#pragma unroll
        for (int c = 0; c < 4; ++c)
          out[c] = through[i / 2][c / 2].at[c % 2 * 2 + i % 2] +
                   (share * dc[i][c] + along * in[j][i][c]);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const float mixed = own[Of::kRes + k * N + j];
          const auto around = load(dout, token, k);
#pragma unroll
          for (int c = 0; c < 4; ++c) out[c] += mixed * around[c];
        }
        if (there && begin + token < h.tokens)
          store_values<4>(p.dx + ((begin + token) * N + j) * h.d + column, out);
      }
    }
  }

  if (rank == 0 && me < 4 * kTile && me % 4 < N) atomicAdd(p.dbias + me % 4, dbias);
  if (!there) return;
  if (p.dweight && !p.norm.none)
#pragma unroll
    for (int c = 0; c < 4; ++c) atomicAdd(p.dweight + column + c, dnorm[c]);
#pragma unroll
  for (int j = 0; j < N; ++j)
#pragma unroll
    for (int n = 0; n < Tiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int r = 8 * n + 2 * place.t + i;
        const auto& d = dweight[j][n];
        if (r < count)
          add4(p.dw + static_cast<int64_t>(r) * width + j * h.d + column, d[0].at[i],
               d[0].at[2 + i], d[1].at[i], d[1].at[2 + i]);
      }
}

}  // namespace

bool fits_held_streams(int64_t n, int64_t d, int64_t count) {
  return fits_held_read(n, d, count) && with_held<Memory>(n, d, count, [](auto, auto, auto) {});
}

void held_read_backward(CudaStream stream, const HeldReadBackward& p, int64_t count,
                        const StreamShape& s) {
  if (s.tokens == 0) return;
  with_held<Memory>(s.n, s.d, count, [&](auto streams, auto tiles, auto blocks) {
    using M = Memory<streams.value, tiles.value, blocks.value>;
    const auto columns = static_cast<int>(s.d / blocks);
    const auto clusters =
        std::min<int64_t>((s.tokens + kTile - 1) / kTile, held_clusters(blocks.value));
    launch(stream,
           {clusters * blocks, M::threads(columns), M::bytes(columns, static_cast<int>(count)),
            blocks.value},
           held_back<streams.value, tiles.value, blocks.value>,
           Held{p, s.tokens, static_cast<int>(s.d), columns, static_cast<int>(count)});
  });
  check_launch("held_read_backward");
}

}  // namespace geores::kernels
