#include "geores/kernels/routed/held.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kTile = 32;  // tokens that a cluster holds at a time, and the next ones on their way
// Warps have 16 tokens each, and every kParts-th run of 32 columns.
constexpr int kWarps = 8, kThreadsOfBlock = 32 * kWarps, kParts = kWarps / (kTile / 16);

struct HeldRead {
  HeldReadForward p;
  int64_t tokens;
  int d, columns, count;
};

template <int N, int Tiles, int Blocks>
struct Memory {
  uint32_t* weights;  // (8 Tiles, N columns): runs of 32 columns as in wide_half_matrices.cuh
  BFloat16* buffers;  // two: tokens
  float *partial, *exchanged;  // (parts, tile, count + 1), (2, blocks, tile, count + 1)
  float *share, *moments;  // (tile, N), (2, blocks, tile, 2): mean and squares of a block's columns

  static __host__ __device__ int stride(int columns) { return matrix_stride(N * columns); }
  // Lanes of two tokens read 64 neighbouring bytes each at once: tokens 16 banks apart do not collide.
  static __host__ __device__ int token(int columns) { return (N * columns + 63) / 64 * 64 + 32; }
  static __host__ __device__ size_t bytes(int columns, int count) {
    return sizeof(uint32_t) * 8 * Tiles * stride(columns) +
           sizeof(BFloat16) * 2 * kTile * token(columns) +
           sizeof(float) * kTile * ((kParts + 2 * Blocks) * (count + 1) + N + 4 * Blocks);
  }
  __device__ Memory(unsigned char* at, int columns, int count) {
    weights = reinterpret_cast<uint32_t*>(at);
    buffers = reinterpret_cast<BFloat16*>(weights + 8 * Tiles * stride(columns));
    partial = reinterpret_cast<float*>(buffers + 2 * kTile * token(columns));
    exchanged = partial + kParts * kTile * (count + 1);
    share = exchanged + 2 * Blocks * kTile * (count + 1);
    moments = share + kTile * N;
  }
};

__device__ inline float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }

template <int N, int Tiles, int Blocks>
__global__ void __launch_bounds__(kThreadsOfBlock, 1) held_read(HeldRead a) {
  wait_for_previous();
  GEORES_SHARED_BYTES(shared);
  using M = Memory<N, Tiles, Blocks>;
  using C = Cluster<Blocks>;
  const M m(shared, a.columns, a.count);
  const auto& p = a.p;
  const Place place;
  const int me = static_cast<int>(threadIdx.x), lane = me % 32, warp = me / 32, rank = C::rank(),
            count = a.count, values = count + 1, first = rank * a.columns, width = N * a.d,
            stride = M::stride(a.columns), token_stride = M::token(a.columns);

  for (int i = me; i < 8 * Tiles * (N * a.columns / 2); i += kThreadsOfBlock) {
    const int r = i / (N * a.columns / 2), k = i % (N * a.columns / 2) * 2;
    const float* from =
        p.w + static_cast<int64_t>(r) * width + k / a.columns * a.d + first + k % a.columns;
    const HalfPair pair(r < count ? from[0] : 0.f, r < count ? from[1] : 0.f);
    uint32_t* to = m.weights + r * stride + k / 32 * kRunWords + k % 32 / 2;
    to[0] = pair.high, to[kRunWords / 2] = pair.low;
  }

  // Starts to copy the block's columns of a tile; zeros beyond the last token.
  const auto copy = [&](int64_t begin, BFloat16* to) {
    const int pieces = a.columns / 8;
    for (int i = me; i < kTile * N * pieces; i += kThreadsOfBlock) {
      const int piece = i % pieces, stream = i / pieces % N, token = i / pieces / N;
      const bool there = begin + token < a.tokens;
      const BFloat16* from =
          p.x + (there ? ((begin + token) * N + stream) * a.d + first + 8 * piece : 0);
      copy_eight(to + token * token_stride + stream * a.columns + 8 * piece, from, there);
    }
    end_held_copies();
  };

  const auto step = static_cast<int64_t>(gridDim.x) / Blocks * kTile;
  auto begin = static_cast<int64_t>(blockIdx.x) / Blocks * kTile;
  copy(begin, m.buffers);
  C::meet();  // all blocks run: others may write into this one's memory
  for (int round = 0; begin < a.tokens; begin += step, ++round) {
    wait_for_held_copies();
    if (begin + step < a.tokens)
      copy(begin + step, m.buffers + (round + 1) % 2 * kTile * token_stride);
    const BFloat16* x = m.buffers + round % 2 * kTile * token_stride;
    float* exchanged = m.exchanged + round % 2 * Blocks * kTile * values;
    float* moments = m.moments + round % 2 * Blocks * kTile * 2;

    {
      using Columns = LoadedAhead<8, BFloat16>;
      const int row = warp % (kTile / 16) * 16 + place.g, part = warp / (kTile / 16);
      Result sums[Tiles];
      float squares[2] = {};
      for (int run = part; run < N * a.columns / 32; run += kParts) {
        Columns in[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          in[half].load(x + (row + 8 * half) * token_stride + 32 * run + 8 * place.t);
#pragma unroll
          for (int i = 0; i < 8; ++i) squares[half] += in[half][i] * in[half][i];
        }
        const Left front{{in[0].at[0], in[1].at[0], in[0].at[1], in[1].at[1]}},
            back{{in[0].at[2], in[1].at[2], in[0].at[3], in[1].at[3]}};
        const uint32_t* w = m.weights + place.g * stride + run * kRunWords + 4 * place.t;
#pragma unroll
        for (int n = 0; n < Tiles; ++n) {
          const uint32_t* at = w + 8 * n * stride;
          const auto high = *reinterpret_cast<const uint4*>(at),
                     low = *reinterpret_cast<const uint4*>(at + kRunWords / 2);
          multiply_add(sums[n], front, low.x, low.y);
          multiply_add(sums[n], back, low.z, low.w);
          multiply_add(sums[n], front, high.x, high.y);
          multiply_add(sums[n], back, high.z, high.w);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* to = m.partial + (part * kTile + row + 8 * half) * values;
        const float square = quad_sum(squares[half]);
#pragma unroll
        for (int n = 0; n < Tiles; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (const int r = 8 * n + 2 * place.t + i; r < count) to[r] = sums[n].at[2 * half + i];
        if (place.t == 0) to[count] = square;
      }
    }
    __syncthreads();
    for (int i = me; i < kTile * values; i += kThreadsOfBlock) {
      float sum = 0;
#pragma unroll
      for (int part = 0; part < kParts; ++part) sum += m.partial[part * kTile * values + i];
#pragma unroll
      for (int to = 0; to < Blocks; ++to) C::store(exchanged + rank * kTile * values + i, to, sum);
    }
    C::meet();
    const auto total = [&](int token, int r) {
      float sum = 0;
#pragma unroll
      for (int b = 0; b < Blocks; ++b) sum += exchanged[(b * kTile + token) * values + r];
      return sum;
    };
    const auto scale_of = [&](int token) {
      return 1.f / sqrtf(total(token, count) / width + p.eps);
    };
    for (int i = me; i < kTile * N; i += kThreadsOfBlock)
      m.share[i] = sigmoid(total(i / N, i % N) * scale_of(i / N) + p.bias[i % N]) + p.offset;
    // Every block writes the routes of its part of the tokens.
    for (int i = me; i < kTile / Blocks * count; i += kThreadsOfBlock) {
      const int token = rank * (kTile / Blocks) + i / count, r = i % count;
      const auto t = begin + token;
      if (t >= a.tokens) break;
      const float scale = scale_of(token), plain = total(token, r) * scale, raw = plain + p.bias[r];
      p.plain[t * count + r] = plain;
      if (r < N)
        p.read[t * N + r] = sigmoid(raw) + p.offset;
      else if (r < 2 * N)
        p.write[t * N + r - N] = 2.f * sigmoid(raw);
      else
        p.others[t * (count - 2 * N) + r - 2 * N] = raw;
      if (r == 0) p.inverse[t] = scale;
    }
    __syncthreads();

    // A warp has four tokens, a lane pairs of neighbouring columns.
    constexpr int tokens_of_warp = kTile / kWarps, pairs = kMostHeldColumns / 64;
    float held[tokens_of_warp][pairs][2];
    const bool layer = !p.norm.none && p.norm.norm.kind == NormKind::layer;
#pragma unroll
    for (int k = 0; k < tokens_of_warp; ++k) {
      const int token = warp * tokens_of_warp + k;
      float sum = 0;
#pragma unroll
      for (int pair = 0; pair < pairs; ++pair) {
        const int column = 64 * pair + 2 * lane;
        held[k][pair][0] = held[k][pair][1] = 0;
        if (column >= a.columns) continue;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const auto two =
              *reinterpret_cast<const uint32_t*>(x + token * token_stride + j * a.columns + column);
          const float share = m.share[token * N + j];
          held[k][pair][0] += share * __uint_as_float(two << 16);
          held[k][pair][1] += share * __uint_as_float(two & 0xffff0000u);
        }
        sum += held[k][pair][0] + held[k][pair][1];
      }
      if (p.norm.none) continue;
      const float mean = layer ? group_sum<32>(sum) / a.columns : 0.f;
      float squares = 0;
#pragma unroll
      for (int pair = 0; pair < pairs; ++pair)
        if (64 * pair + 2 * lane < a.columns)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            squares += (held[k][pair][i] - mean) * (held[k][pair][i] - mean);
      squares = group_sum<32>(squares);
      if (lane < 2 * Blocks)
        C::store(moments + (rank * kTile + token) * 2 + lane % 2, lane / 2,
                 lane % 2 == 0 ? mean : squares);
    }
    if (!p.norm.none) C::meet();
#pragma unroll
    for (int k = 0; k < tokens_of_warp; ++k) {
      const int token = warp * tokens_of_warp + k;
      const auto t = begin + token;
      if (t >= a.tokens) break;
      float mean = 0, inverse = 1;
      if (!p.norm.none) {
        // The squares about the mean of all columns from those about the mean of each block's.
        float squares = 0;
#pragma unroll
        for (int b = 0; b < Blocks; ++b) mean += moments[(b * kTile + token) * 2] / Blocks;
#pragma unroll
        for (int b = 0; b < Blocks; ++b) {
          const float* of = moments + (b * kTile + token) * 2;
          squares += of[1] + a.columns * (of[0] - mean) * (of[0] - mean);
        }
        inverse = 1.f / sqrtf(squares / a.d + p.norm.norm.eps);
        if (rank == 0 && lane == 0) p.statistics[t] = {mean, inverse};
      }
#pragma unroll
      for (int pair = 0; pair < pairs; ++pair) {
        const int column = 64 * pair + 2 * lane;
        if (column >= a.columns) continue;
        float out[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float weight =
              p.norm.none || !p.norm.norm.weight ? 1.f : p.norm.norm.weight[first + column + i];
          out[i] = (held[k][pair][i] - mean) * inverse * weight;
        }
        *reinterpret_cast<uint32_t*>(p.h + t * a.d + first + column) = pack(out[0], out[1]);
      }
    }
  }
}

}  // namespace

bool fits_held_read(int64_t n, int64_t d, int64_t count) {
  return with_held<Memory>(n, d, count, [](auto, auto, auto) {});
}

void held_read_forward(CudaStream stream, const HeldReadForward& p, int64_t count,
                       const StreamShape& s) {
  if (s.tokens == 0) return;
  with_held<Memory>(s.n, s.d, count, [&](auto streams, auto tiles, auto blocks) {
    using M = Memory<streams.value, tiles.value, blocks.value>;
    const auto columns = static_cast<int>(s.d / blocks);
    const auto clusters =
        std::min<int64_t>((s.tokens + kTile - 1) / kTile, held_clusters(blocks.value));
    launch(stream,
           {clusters * blocks, kThreadsOfBlock, M::bytes(columns, static_cast<int>(count)),
            blocks.value},
           held_read<streams.value, tiles.value, blocks.value>,
           HeldRead{p, s.tokens, static_cast<int>(s.d), columns, static_cast<int>(count)});
  });
  check_launch("held_read_forward");
}

}  // namespace geores::kernels
