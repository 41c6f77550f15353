// Causal attention in bfloat16 by matrix instructions (m16n8k16). One block computes one head of
// one sequence. The head's keys and values fit shared memory, in the backward pass the queries and
// output gradients too. So everything is read once, and nothing of size T × T leaves the registers.
// A warp has 16 rows and goes through the columns 32 at a time, which gives enough independent
// products to hide their latency. Weights above the diagonal are not computed, except to complete a
// step of 32 columns. Heads of 32 values and at most 256 positions have a faster form on GPUs with
// warpgroups: attention_warpgroups.cu.
#include "geores/kernels/attention/attention.h"
#include "geores/kernels/attention/attention_warpgroups.h"
#include "geores/kernels/cuda/matrix.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kWarps = 8, kTile = 16;
constexpr int kStep = static_cast<int>(kAttentionStep), kStepTiles = kStep / 8;

// f(tile) for the tiles of this warp. The assignment goes back and forth over the warps, so that
// each gets long and short rows.
template <class F>
__device__ inline void for_each_tile(int tiles, F&& f) {
  const int warp = threadIdx.x / 32;
  for (int round = 0; round * kWarps < tiles; ++round) {
    const int tile = round * kWarps + (round % 2 == 0 ? warp : kWarps - 1 - warp);
    if (tile < tiles) f(tile);
  }
}

struct Head {
  int64_t sequence, head, in_stride, out_stride;
  const BFloat16* qkv;  // of position 0; keys start heads · D further, values twice that
  int64_t part;
  int length, padded, tiles;

  __device__ Head(const BFloat16* all, int T, int heads, int D) {
    sequence = blockIdx.x / heads;
    head = blockIdx.x % heads;
    part = static_cast<int64_t>(heads) * D;
    in_stride = 3 * part;
    out_stride = part;
    qkv = all + sequence * T * in_stride + head * D;
    length = T;
    tiles = (T + kTile - 1) / kTile;
    padded = static_cast<int>(padded_attention_length(T));
  }
  __device__ int64_t out_offset(int D) const { return sequence * length * out_stride + head * D; }
};

// Calls f(value i of result n, whether it is in the second row, its column) for 16 × kStep results.
template <class F>
__device__ inline void for_each_value(int first_column, F&& f) {
  const int t = FragmentLane().t;
#pragma unroll
  for (int n = 0; n < kStepTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) f(n, i, i >= 2, first_column + n * 8 + 2 * t + i % 2);
}

__device__ inline void as_lefts(const Result (&c)[kStepTiles], Left (&to)[kStepTiles / 2]) {
#pragma unroll
  for (int k = 0; k < kStepTiles / 2; ++k) to[k] = as_left(c[2 * k], c[2 * k + 1]);
}

template <int D>
// Two blocks share a multiprocessor and hide each other's latency.
__global__ void __launch_bounds__(kWarps * 32, 2)
    forward(const BFloat16* qkv, BFloat16* out, float* log_sum, int T, int heads, float scale) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const Head h(qkv, T, heads, D);
  const Rows<D> keys{reinterpret_cast<BFloat16*>(memory)};
  const Rows<D> values{keys.row(h.padded)};
  fill(keys, h.qkv + h.part, h.in_stride, T, h.padded);
  fill(values, h.qkv + 2 * h.part, h.in_stride, T, h.padded);
  wait_for_copies();

  const FragmentLane fragment;
  for_each_tile(h.tiles, [&](int tile) {
    const int first = tile * kTile, row0 = first + fragment.g, row1 = row0 + 8;
    Left q[D / 16];
    load_left(h.qkv, h.in_stride, first, T, q);
    Result o[D / 8];
    float most0 = -INFINITY, most1 = -INFINITY, sum0 = 0, sum1 = 0;
    for (int key = 0; key < first + kTile; key += kStep) {
      Result s[kStepTiles];
      keys.add_times_transpose(q, key, s);
      if (key + kStep > first)
        for_each_value(key, [&](int n, int i, bool second, int column) {
          if (column > (second ? row1 : row0)) s[n].at[i] = -INFINITY;
        });
      float top0 = most0, top1 = most1;
      for_each_value(key, [&](int n, int i, bool second, int) {
        (second ? top1 : top0) = fmaxf(second ? top1 : top0, s[n].at[i]);
      });
      top0 = quad_max(top0);
      top1 = quad_max(top1);
      const float shrink0 = exponential2((most0 - top0) * scale),
                  shrink1 = exponential2((most1 - top1) * scale);
      const float shift0 = top0 * scale, shift1 = top1 * scale;
      sum0 *= shrink0;
      sum1 *= shrink1;
      for_each_value(key, [&](int n, int i, bool second, int) {
        auto& weight = s[n].at[i];
        weight = exponential2(weight * scale - (second ? shift1 : shift0));
        (second ? sum1 : sum0) += weight;
      });
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        o[n].at[0] *= shrink0;
        o[n].at[1] *= shrink0;
        o[n].at[2] *= shrink1;
        o[n].at[3] *= shrink1;
      }
      Left weights[kStepTiles / 2];
      as_lefts(s, weights);
      values.add_times(weights, key, 0, o);
      most0 = top0;
      most1 = top1;
    }
    sum0 = quad_sum(sum0);
    sum1 = quad_sum(sum1);
    store_rows(o, 1 / sum0, 1 / sum1, out + h.out_offset(D), h.out_stride, first, T);
    if (fragment.t == 0) {  // in units of log 2
      float* to = log_sum + static_cast<int64_t>(blockIdx.x) * T;
      if (row0 < T) to[row0] = most0 * scale + log2f(sum0);
      if (row1 < T) to[row1] = most1 * scale + log2f(sum1);
    }
  });
}

template <int D>
__global__ void __launch_bounds__(kWarps * 32, D == 32 ? 2 : 1)
    backward(const BFloat16* qkv, const BFloat16* out, const float* log_sum, const BFloat16* dout,
             BFloat16* dqkv, int T, int heads, float scale) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const Head h(qkv, T, heads, D);
  const Rows<D> queries{reinterpret_cast<BFloat16*>(memory)};
  const Rows<D> keys{queries.row(h.padded)}, values{keys.row(h.padded)},
      slopes{values.row(h.padded)};
  auto* logs = reinterpret_cast<float*>(slopes.row(h.padded));
  auto* deltas = logs + h.padded;  // ⟨dout, out⟩ of each row
  fill(queries, h.qkv, h.in_stride, T, h.padded);
  fill(keys, h.qkv + h.part, h.in_stride, T, h.padded);
  fill(values, h.qkv + 2 * h.part, h.in_stride, T, h.padded);
  fill(slopes, dout + h.out_offset(D), h.out_stride, T, h.padded);
  for (int row = threadIdx.x; row < h.padded; row += blockDim.x) {
    // A row beyond the sequence has no weights: exp(… − ∞) = 0.
    logs[row] = row < T ? log_sum[static_cast<int64_t>(blockIdx.x) * T + row] : INFINITY;
    float sum = 0;
    if (row < T) {
      const auto at = h.out_offset(D) + row * h.out_stride;
#pragma unroll
      for (int c = 0; c < D; c += 8) {
        float a[8], b[8];
        load_values<8>(out + at + c, a);
        load_values<8>(dout + at + c, b);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += a[i] * b[i];
      }
    }
    deltas[row] = sum;
  }
  wait_for_copies();

  const FragmentLane fragment;
  const float to_score = scale * kLog2e;
  BFloat16* dq = dqkv + (h.qkv - qkv);
  for_each_tile(h.tiles, [&](int tile) {  // queries
    const int first = tile * kTile, row0 = first + fragment.g, row1 = row0 + 8;
    Left q[D / 16], d[D / 16];
    queries.left(first, q);
    slopes.left(first, d);
    const float log0 = logs[row0], log1 = logs[row1], delta0 = deltas[row0], delta1 = deltas[row1];
    Result sum[D / 8];
    for (int key = 0; key < first + kTile; key += kStep) {
      Result s[kStepTiles], dp[kStepTiles];
      keys.add_times_transpose(q, key, s);
      values.add_times_transpose(d, key, dp);
      const bool edge = key + kStep > first;
      for_each_value(key, [&](int n, int i, bool second, int column) {
        float weight = exponential2(s[n].at[i] * to_score - (second ? log1 : log0));
        if (edge && column > (second ? row1 : row0)) weight = 0;
        s[n].at[i] = weight * (dp[n].at[i] - (second ? delta1 : delta0));
      });
      Left slope[kStepTiles / 2];
      as_lefts(s, slope);
      keys.add_times(slope, key, 0, sum);
    }
    store_rows(sum, scale, scale, dq, h.in_stride, first, T);
  });
  for_each_tile(h.tiles, [&](int tile) {  // keys; rows of the products are keys, columns queries
    const int first = tile * kTile, row0 = first + fragment.g, row1 = row0 + 8;
    Left k[D / 16], v[D / 16];
    keys.left(first, k);
    values.left(first, v);
    Result dk[D / 8], dv[D / 8];
    for (int query = first / kStep * kStep; query < h.padded; query += kStep) {
      Result s[kStepTiles], dp[kStepTiles];
      queries.add_times_transpose(k, query, s);
      slopes.add_times_transpose(v, query, dp);
      const bool edge = query < first + kTile;
      for_each_value(query, [&](int n, int i, bool second, int column) {
        float weight = exponential2(s[n].at[i] * to_score - logs[column]);
        if (edge && column < (second ? row1 : row0)) weight = 0;
        s[n].at[i] = weight;
        dp[n].at[i] = weight * (dp[n].at[i] - deltas[column]);
      });
      Left weights[kStepTiles / 2], slope[kStepTiles / 2];
      as_lefts(s, weights);
      as_lefts(dp, slope);
      slopes.add_times(weights, query, 0, dv);
      queries.add_times(slope, query, 0, dk);
    }
    store_rows(dk, scale, scale, dq + h.part, h.in_stride, first, T);
    store_rows(dv, 1.0f, 1.0f, dq + 2 * h.part, h.in_stride, first, T);
  });
}

template <int D>
size_t shared_bytes(int64_t length, int matrices) {
  const auto padded = static_cast<size_t>(padded_attention_length(length));
  return static_cast<size_t>(matrices) * Rows<D>::bytes(padded) + 2 * padded * sizeof(float);
}

template <class F>
void with_head_width(int64_t width, F&& f) {
  if (width == 32)
    f(std::integral_constant<int, 32>());
  else
    f(std::integral_constant<int, 64>());
}

}  // namespace

void causal_attention_forward(CudaStream stream, const BFloat16* qkv, BFloat16* out, float* log_sum,
                              const AttentionShape& s) {
  if (has_attention_warpgroups(s))
    return attention_warpgroups_forward(stream, qkv, out, log_sum, s);
  with_head_width(s.head_width, [&](auto width) {
    const auto bytes = shared_bytes<width.value>(s.length, 2);
    const float scale = kLog2e / sqrtf(static_cast<float>(s.head_width));
    launch(stream, {static_cast<unsigned>(s.batch * s.heads), kWarps * 32, bytes},
           forward<width.value>, qkv, out, log_sum, static_cast<int>(s.length),
           static_cast<int>(s.heads), scale);
  });
  check_launch("causal_attention_forward");
}

void causal_attention_backward(CudaStream stream, const BFloat16* qkv, const BFloat16* out,
                               const float* log_sum, const BFloat16* dout, BFloat16* dqkv,
                               const AttentionShape& s) {
  if (has_attention_warpgroups(s))
    return attention_warpgroups_backward(stream, qkv, out, log_sum, dout, dqkv, s);
  with_head_width(s.head_width, [&](auto width) {
    const auto bytes = shared_bytes<width.value>(s.length, 4);
    launch(stream, {static_cast<unsigned>(s.batch * s.heads), kWarps * 32, bytes},
           backward<width.value>, qkv, out, log_sum, dout, dqkv, static_cast<int>(s.length),
           static_cast<int>(s.heads), 1.0f / sqrtf(static_cast<float>(s.head_width)));
  });
  check_launch("causal_attention_backward");
}

}  // namespace geores::kernels
