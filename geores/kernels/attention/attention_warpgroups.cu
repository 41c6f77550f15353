// Causal attention in bfloat16 by warpgroups, for heads of 32 values and up to 256 positions. One
// block computes one head of one sequence from shared memory, in tiles of 64 × 64 weights. There
// are ten tiles on and below the diagonal, and each of two warpgroups computes five of them. They
// start with the first half of the sequence while the second half is still being copied.
#include "geores/kernels/attention/attention_warpgroups.h"

#include <cmath>
#include <type_traits>

#include "geores/kernels/cuda/warpgroup.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kWidth = 32, kRowBytes = 2 * kWidth, kTile = 64, kMostTiles = 4;
constexpr int kGroups = 2, kBlockThreads = 128 * kGroups;
constexpr int kMatrix = kMostTiles * kTile * kRowBytes;  // bytes
constexpr int kSlopes = kTile * kLine;                   // bytes of one tile of dS
constexpr int kAlignment = 1024;                         // wgmma requires it

// Returns a pointer, not a number: offsets from a pointer become part of the instructions.
__device__ inline unsigned char* aligned_shared() {
  GEORES_SHARED_BYTES(unaligned);
  return unaligned + (-shared_address(unaligned) & (kAlignment - 1));
}

// The offset in its matrix of one 16-byte piece of one position, with the 64-byte swizzle.
__device__ inline uint32_t offset_of(int row, int piece) {
  return row * kRowBytes + (piece ^ row / 2 % 4) * 16;
}

// The piece and row of a tile that this thread copies to shared memory.
struct Share {
  int row = static_cast<int>(threadIdx.x) / 4, piece = static_cast<int>(threadIdx.x) % 4;
};

// Starts to copy the tiles of one half of the sequence, with zeros from `length` on.
__device__ inline void fetch_half(int half, unsigned char* matrix, const BFloat16* from,
                                  int64_t stride, int length) {
  const Share share;
#pragma unroll
  for (int tile = 2 * half; tile < 2 * half + 2; ++tile) {
    const int row = tile * kTile + share.row;
    copy_or_clear(shared_address(matrix) + offset_of(row, share.piece),
                  from + row * stride + share.piece * 8, row < length);
  }
}

// Loads this warp's 16 rows of the tile that begins with row `first`, as left operands.
__device__ inline void load_lefts(const unsigned char* matrix, int first, Left (&to)[2]) {
  const int lane = threadIdx.x % 32, part = lane / 8;
  const int row = first + threadIdx.x / 32 % 4 * 16 + part % 2 * 8 + lane % 8;
#pragma unroll
  for (int k = 0; k < 2; ++k)
    load_matrices<false>(
        to[k].at, reinterpret_cast<const BFloat16*>(matrix + offset_of(row, 2 * k + part / 2)));
}

// A matrix as products take it: the descriptor of its row 0.
struct Factor {
  uint64_t first_row;
  __device__ explicit Factor(const unsigned char* matrix)
      : first_row(describe<kRowBytes>(shared_address(matrix))) {}
  __device__ uint64_t row(int i) const { return first_row + i * (kRowBytes >> 4); }

  // c = or += a · (rows starting at `first`)ᵀ
  template <bool Add, int Values>
  __device__ void times_transposed(const Left (&a)[2], int first, float (&c)[Values]) const {
    warpgroup_multiply<Add, false>(c, a[0], row(first));
    warpgroup_multiply<true, false>(c, a[1], row(first) + (32 >> 4));
  }

  // c += a · (rows starting at `first`)
  template <int Steps>
  __device__ void add_times(const Left (&a)[Steps], int first, float (&c)[16]) const {
#pragma unroll
    for (int k = 0; k < Steps; ++k) warpgroup_multiply<true, true>(c, a[k], row(first + 16 * k));
  }
};

// The shuffle tells the compiler that the number is the same in all lanes.
__device__ inline int warpgroup() { return __shfl_sync(kAllLanes, threadIdx.x / 128, 0); }

// Transposes words over four lanes. Before: in lane m, words[n] is lane n's word m. After: lane n
// has all of its own words.
__device__ inline uint4 exchange(uint32_t (&words)[4]) {
  const int t = threadIdx.x % 4;
  const auto swap = [](uint32_t& low, uint32_t& high, bool upper, int distance) {
    const auto other = __shfl_xor_sync(kAllLanes, upper ? low : high, distance);
    (upper ? low : high) = other;
  };
  swap(words[0], words[1], t & 1, 1);
  swap(words[2], words[3], t & 1, 1);
  swap(words[0], words[2], t & 2, 2);
  swap(words[1], words[3], t & 2, 2);
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Stores 64 rows of results starting at `first`, but only the rows before `length`.
__device__ inline void store_tile(const float (&c)[16], float factor0, float factor1, BFloat16* to,
                                  int64_t stride, int first, int length) {
  const FragmentLane fragment;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + threadIdx.x / 32 % 4 * 16 + fragment.g + 8 * half;
    const float factor = half == 0 ? factor0 : factor1;
    uint32_t words[4];
#pragma unroll
    for (int n = 0; n < 4; ++n)
      words[n] = pack(c[4 * n + 2 * half] * factor, c[4 * n + 2 * half + 1] * factor);
    const auto eight = exchange(words);
    if (row < length) *reinterpret_cast<uint4*>(to + row * stride + 8 * fragment.t) = eight;
  }
}

struct Head {
  const BFloat16* qkv;  // queries of position 0; keys start `part` further, values 2 · part
  int64_t part, in_stride, out_offset;
  int length, tiles;

  __device__ Head(const BFloat16* all, int T, int heads) {
    const int64_t sequence = blockIdx.x / heads, head = blockIdx.x % heads;
    part = static_cast<int64_t>(heads) * kWidth;
    in_stride = 3 * part;
    qkv = all + sequence * T * in_stride + head * kWidth;
    out_offset = sequence * T * part + head * kWidth;
    length = T;
    tiles = (T + kTile - 1) / kTile;
  }
};

__global__ void __launch_bounds__(kBlockThreads, 2)
    forward(const BFloat16* qkv, BFloat16* out, float* log_sum, int T, int heads, float scale) {
  wait_for_previous();
  if constexpr (!kHasWarpgroups) {  // never launched: see has_attention_warpgroups
    __trap();
    return;
  }
  unsigned char *const queries = aligned_shared(), *const keys = queries + kMatrix,
                       *const values = keys + kMatrix;
  const Head h(qkv, T, heads);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    fetch_half(half, queries, h.qkv, h.in_stride, T);
    fetch_half(half, keys, h.qkv + h.part, h.in_stride, T);
    fetch_half(half, values, h.qkv + 2 * h.part, h.in_stride, T);
    end_copies();
  }
  const FragmentLane fragment;
  const Factor k(keys), v(values);
  const int group = warpgroup(),
            own_row = threadIdx.x / 32 % 4 * 16 + fragment.g;  // and own_row + 8
#pragma unroll 1
  for (int round = 0; round < kMostTiles / kGroups; ++round) {
    const int tile = round == 0 ? group : kMostTiles - 1 - group;
    if (round == 0)
      wait_for_copy_groups<1>();
    else
      wait_for_copy_groups<0>();
    show_to_products();
    __syncthreads();
    if (tile >= h.tiles) continue;
    Left q[2];
    load_lefts(queries, tile * kTile, q);
    float o[16] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    const auto attend = [&]<bool Diagonal>(std::bool_constant<Diagonal>, int key) {
      float s[32];
      begin_products();
      k.times_transposed<false>(q, key * kTile, s);
      end_products();
      wait_for_products<0>();
      settle(s);
      settle(o);
      if constexpr (Diagonal) {
#pragma unroll
        for (int i = 0; i < 32; ++i)
          if (i / 4 * 8 + 2 * fragment.t + i % 2 > own_row + i % 4 / 2 * 8) s[i] = -INFINITY;
      }
      float shift[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = most[half];
#pragma unroll
        for (int n = 0; n < 8; ++n)
          top = fmaxf(top, fmaxf(s[4 * n + 2 * half], s[4 * n + 2 * half + 1]));
        top = quad_max(top);
        const float shrink = exponential2((most[half] - top) * scale);
        sum[half] *= shrink;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          o[4 * n + 2 * half] *= shrink;
          o[4 * n + 2 * half + 1] *= shrink;
        }
        most[half] = top;
        shift[half] = top * scale;
      }
      Left weights[4];
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float a = exponential2(s[4 * n + 2 * half] * scale - shift[half]),
                      b = exponential2(s[4 * n + 2 * half + 1] * scale - shift[half]);
          sum[half] += a + b;
          weights[n / 2].at[n % 2 * 2 + half] = pack(a, b);
        }
      begin_products();
      v.add_times(weights, key * kTile, o);
      end_products();
    };
#pragma unroll 1
    for (int key = 0; key < tile; ++key) attend(std::false_type(), key);
    attend(std::true_type(), tile);
    wait_for_products<0>();
    settle(o);
    sum[0] = quad_sum(sum[0]);
    sum[1] = quad_sum(sum[1]);
    store_tile(o, 1 / sum[0], 1 / sum[1], out + h.out_offset, h.part, tile * kTile, T);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile * kTile + own_row + 8 * half;
      if (fragment.t == 0 && row < T)  // in units of log 2
        log_sum[static_cast<int64_t>(blockIdx.x) * T + row] = most[half] * scale + log2f(sum[half]);
    }
  }
}

// The five steps of a warpgroup, a hexadecimal digit for each, the lowest first: which block of
// keys and which block of queries it takes. A warpgroup finishes all queries of a block of keys
// before it takes the next block. The two warpgroups never have the same queries in the same step,
// because they add to the gradient of the queries in turn. The first step needs only the first half
// of the sequence.
struct Plan {
  int keys, queries, first, last;  // first, last: bits of the steps that begin and end a dq
  static constexpr int kSteps = 5;
};
__device__ inline Plan plan_of(int group) {
  return group == 0 ? Plan{0x30000, 0x32310, 0b00001, 0b10011}
                    : Plan{0x22111, 0x23231, 0b00111, 0b10000};
}

__global__ void __launch_bounds__(kBlockThreads, 2)
    backward(const BFloat16* qkv, const BFloat16* out, const float* log_sum, const BFloat16* dout,
             BFloat16* dqkv, int T, int heads, float scale) {
  wait_for_previous();
  if constexpr (!kHasWarpgroups) {  // never launched: see has_attention_warpgroups
    __trap();
    return;
  }
  const int group = warpgroup(), thread = threadIdx.x % 128;
  unsigned char *const queries = aligned_shared(), *const keys = queries + kMatrix,
                       *const values = keys + kMatrix,
                       *const slopes = values + kMatrix;  // gradients of the outputs
  auto* const logs =
      reinterpret_cast<float*>(slopes + kMatrix);  // −log_sum of each row; added to its scores
  auto* const deltas = logs + kMostTiles * kTile;  // −⟨dout, out⟩
  auto* const score_slopes = reinterpret_cast<unsigned char*>(deltas + kMostTiles * kTile);
  // Partial sums of dq.
  auto* const sums = reinterpret_cast<float4*>(score_slopes + kGroups * kSlopes);
  const Head h(qkv, T, heads);
  const float to_score = scale * kLog2e;
  // Out; `sums` overwrite it later.
  auto* const outputs = reinterpret_cast<unsigned char*>(sums + 4 * 128);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    fetch_half(half, queries, h.qkv, h.in_stride, T);
    fetch_half(half, keys, h.qkv + h.part, h.in_stride, T);
    fetch_half(half, values, h.qkv + 2 * h.part, h.in_stride, T);
    fetch_half(half, slopes, dout + h.out_offset, h.part, T);
    fetch_half(half, outputs, out + h.out_offset, h.part, T);
    end_copies();
  }
  {  // A row beyond the sequence has no weights: exp(−∞) = 0.
    const int row = threadIdx.x;
    logs[row] =
        row < T ? -log_sum[static_cast<int64_t>(blockIdx.x) * T + row] / to_score : -INFINITY;
  }
  const auto finish_half = [&](int half) {
    const Share share;  // the pieces that this thread has copied itself
#pragma unroll
    for (int tile = 2 * half; tile < 2 * half + 2; ++tile) {
      const int row = tile * kTile + share.row;
      float d[8], o[8], delta = 0;
      load_values<8>(reinterpret_cast<const BFloat16*>(slopes + offset_of(row, share.piece)), d);
      load_values<8>(reinterpret_cast<const BFloat16*>(outputs + offset_of(row, share.piece)), o);
#pragma unroll
      for (int i = 0; i < 8; ++i) delta -= d[i] * o[i];
      delta = quad_sum(delta);
      if (share.piece == 0) deltas[row] = delta;
    }
    show_to_products();
    __syncthreads();
  };
  wait_for_copy_groups<1>();
  finish_half(0);

  const FragmentLane fragment;
  const int own_row = thread / 32 * 16 + fragment.g;  // row of a tile; the other one is own_row + 8
  BFloat16* const dq_out = dqkv + (h.qkv - qkv);
  const Factor q_rows(queries), k_rows(keys), d_rows(slopes);
  // Where this lane stores its row of four 8 × 8 matrices, for the first of two pairs of eight
  // columns.
  const int lane = threadIdx.x % 32;
  const uint32_t own_slopes = shared_address(score_slopes) + group * kSlopes,
                 store_to = own_slopes +
                            swizzled(thread / 32 * 16 + lane / 8 % 2 * 8 + lane % 8, lane / 16);
  const Plan plan = plan_of(group);
  Left k[2], v[2];
  float dk[16] = {}, dv[16] = {};
  load_lefts(keys, (plan.keys & 15) * kTile, k);
  load_lefts(values, (plan.keys & 15) * kTile, v);

  // The backward pass of 64 keys and 32 queries.
  const auto go_back = [&](int key, int query, int part) {
    const int first = query * kTile + part * 32;
    float s[16], dp[16];  // start with the values of their columns, and products are added
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
      const int column = first + i / 4 * 8 + 2 * fragment.t;
      const auto log = *reinterpret_cast<const float2*>(logs + column),
                 delta = *reinterpret_cast<const float2*>(deltas + column);
      s[i] = log.x;
      s[i + 1] = log.y;
      dp[i] = delta.x;
      dp[i + 1] = delta.y;
    }
    if (key == query) {
#pragma unroll
      for (int i = 0; i < 16; ++i)
        if (part * 32 + i / 4 * 8 + 2 * fragment.t + i % 2 < own_row + i % 4 / 2 * 8)
          s[i] = -INFINITY;
    }
    settle(s);
    settle(dp);
    begin_products();
    q_rows.times_transposed<true>(k, first, s);
    end_products();
    d_rows.times_transposed<true>(v, first, dp);
    end_products();
    wait_for_products<1>();
    settle(s);
    Left weights[2], slope[2];
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = 4 * n + 2 * half;
        s[i] = exponential2(s[i] * to_score);
        s[i + 1] = exponential2(s[i + 1] * to_score);
        weights[n / 2].at[n % 2 * 2 + half] = pack(s[i], s[i + 1]);
      }
    wait_for_products<0>();
    settle(dp);
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = 4 * n + 2 * half;
        slope[n / 2].at[n % 2 * 2 + half] = pack(s[i] * dp[i], s[i + 1] * dp[i + 1]);
      }
#pragma unroll
    for (int k = 0; k < 2; ++k) store_matrices(store_to ^ (part * 64 + k * 32), slope[k].at);
    begin_products();
    d_rows.add_times(weights, first, dv);
    q_rows.add_times(slope, first, dk);
    end_products();
  };

#pragma unroll 1
  for (int step = 0; step < Plan::kSteps; ++step) {
    const int key = plan.keys >> 4 * step & 15, query = plan.queries >> 4 * step & 15;
    if (query < h.tiles) {
      go_back(key, query, 0);
      go_back(key, query, 1);
      show_to_products();
      wait_for_warpgroup(group);
      float dq[16];
      const auto lines = describe(own_slopes);
      begin_products();
      warpgroup_multiply_lines<false>(dq, lines, k_rows.row(key * kTile));
#pragma unroll
      for (int i = 16; i < kTile; i += 16)
        warpgroup_multiply_lines<true>(dq, lines + (i * kLine >> 4), k_rows.row(key * kTile + i));
      end_products();
      wait_for_products<0>();
      settle(dq);
      settle(dk);
      settle(dv);
      // A thread has the same values of a tile in both warpgroups, so the order of values in `sums`
      // does not matter.
      auto* const sum = sums + (query - 1) * 4 * 128 + thread;
      if (!(plan.first >> step & 1))
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const auto four = sum[i * 128];
          dq[4 * i] += four.x;
          dq[4 * i + 1] += four.y;
          dq[4 * i + 2] += four.z;
          dq[4 * i + 3] += four.w;
        }
      if (plan.last >> step & 1)
        store_tile(dq, scale, scale, dq_out, h.in_stride, query * kTile, T);
      else
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sum[i * 128] = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    }
    const int next_key = step + 1 < Plan::kSteps ? plan.keys >> 4 * (step + 1) & 15 : -1;
    if (next_key != key) {
      if (key < h.tiles) {
        store_tile(dk, scale, scale, dq_out + h.part, h.in_stride, key * kTile, T);
        store_tile(dv, 1.0f, 1.0f, dq_out + 2 * h.part, h.in_stride, key * kTile, T);
      }
      if (next_key >= 0) {
        load_lefts(keys, next_key * kTile, k);
        load_lefts(values, next_key * kTile, v);
#pragma unroll
        for (int i = 0; i < 16; ++i) dk[i] = dv[i] = 0;
      }
    }
    if (step == 0) {
      wait_for_copy_groups<0>();
      finish_half(1);
    } else {
      __syncthreads();  // makes this step's dq visible to the other warpgroup
    }
  }
}

constexpr size_t kForwardBytes = 3 * kMatrix + kAlignment;
constexpr size_t kBackwardBytes = 4 * kMatrix + 2 * kMostTiles * kTile * sizeof(float) +
                                  kGroups * kSlopes +
                                  (kMostTiles - 1) * kTile * kWidth * sizeof(float) + kAlignment;

}  // namespace

bool has_attention_warpgroups(const AttentionShape& s) {
  return has_warpgroups() && s.head_width == kWidth && s.length <= kMostTiles * kTile;
}

void attention_warpgroups_forward(CudaStream stream, const BFloat16* qkv, BFloat16* out,
                                  float* log_sum, const AttentionShape& s) {
  launch(stream, {s.batch * s.heads, kBlockThreads, kForwardBytes}, forward, qkv, out, log_sum,
         static_cast<int>(s.length), static_cast<int>(s.heads),
         kLog2e / std::sqrt(static_cast<float>(kWidth)));
  check_launch("attention_warpgroups_forward");
}

void attention_warpgroups_backward(CudaStream stream, const BFloat16* qkv, const BFloat16* out,
                                   const float* log_sum, const BFloat16* dout, BFloat16* dqkv,
                                   const AttentionShape& s) {
  launch(stream, {s.batch * s.heads, kBlockThreads, kBackwardBytes}, backward, qkv, out, log_sum,
         dout, dqkv, static_cast<int>(s.length), static_cast<int>(s.heads),
         1.0f / std::sqrt(static_cast<float>(kWidth)));
  check_launch("attention_warpgroups_backward");
}

}  // namespace geores::kernels
