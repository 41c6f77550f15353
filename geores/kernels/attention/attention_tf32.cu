// Causal attention of float values by matrix instructions with tf32 factors (m16n8k8), forward
// only. Evaluations use it, because their losses are too small for bfloat16. As in attention.cu,
// one block computes one head of one sequence with its keys and values in shared memory, and a warp
// has 16 queries.
//
// The instruction may take the values of a row in any order if both factors use the same order. So
// each lane takes neighbours: the D / 4 values of a position starting at t · D / 4, two for each
// instruction, and of eight keys the two whose weights the lane holds.
#include <type_traits>

#include "geores/kernels/attention/attention.h"
#include "geores/kernels/cuda/tf32.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kWarps = 8, kTile = 16, kStep = static_cast<int>(kAttentionStep);
constexpr int kStepTiles = kStep / 8;

__device__ inline uint32_t tf32(float x) { return __float_as_uint(rounded_to_tf32(x)); }

// Rows of D values in shared memory, as tf32; padded so that the lanes of a warp read different
// banks.
template <int D>
struct FloatRows {
  static constexpr int kStride = D + 4;
  uint32_t* at;
  __device__ uint32_t* row(int i) const { return at + i * kStride; }

  // Copies `length` rows, `stride` apart, and writes zeros up to row `padded`.
  __device__ void fill(const float* from, int64_t stride, int length, int padded) const {
    constexpr int pieces = D / 4;
    for (int i = threadIdx.x; i < padded * pieces; i += blockDim.x) {
      const int which = i / pieces, piece = i % pieces;
      float4 v = make_float4(0, 0, 0, 0);
      if (which < length) v = *reinterpret_cast<const float4*>(from + which * stride + piece * 4);
      *reinterpret_cast<uint4*>(row(which) + piece * 4) =
          make_uint4(tf32(v.x), tf32(v.y), tf32(v.z), tf32(v.w));
    }
  }
};

template <int D>
__global__ void __launch_bounds__(kWarps * 32, 2)
    forward(const float* qkv, float* out, int T, int heads, float scale) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  constexpr int kOwn = D / 4;  // values of a row that a lane multiplies
  const int64_t sequence = blockIdx.x / heads, head = blockIdx.x % heads;
  const int64_t part = static_cast<int64_t>(heads) * D, stride = 3 * part;
  const float* q_rows = qkv + sequence * T * stride + head * D;
  float* out_rows = out + sequence * T * part + head * D;
  const int tiles = (T + kTile - 1) / kTile;
  const int padded = static_cast<int>(padded_attention_length(T));
  const FloatRows<D> keys{reinterpret_cast<uint32_t*>(memory)}, values{keys.row(padded)};
  keys.fill(q_rows + part, stride, T, padded);
  values.fill(q_rows + 2 * part, stride, T, padded);
  __syncthreads();

  const FragmentLane fragment;
  const int warp = threadIdx.x / 32;
  for (int round = 0; round * kWarps < tiles; ++round) {
    // Back and forth over the warps, so that each gets long and short rows.
    const int tile = round * kWarps + (round % 2 == 0 ? warp : kWarps - 1 - warp);
    if (tile >= tiles) continue;
    const int first = tile * kTile, row0 = first + fragment.g, row1 = row0 + 8;
    uint32_t q[D / 8][4];
#pragma unroll
    for (int i = 0; i < kOwn; i += 4)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = half == 0 ? row0 : row1;
        float4 v = make_float4(0, 0, 0, 0);
        if (row < T)
          v = *reinterpret_cast<const float4*>(q_rows + row * stride + fragment.t * kOwn + i);
        q[i / 2][half] = tf32(v.x);
        q[i / 2][2 + half] = tf32(v.y);
        q[i / 2 + 1][half] = tf32(v.z);
        q[i / 2 + 1][2 + half] = tf32(v.w);
      }
    Result o[D / 8];
    float most0 = -INFINITY, most1 = -INFINITY, sum0 = 0, sum1 = 0;
    for (int key = 0; key < first + kTile; key += kStep) {
      Result s[kStepTiles];
#pragma unroll
      for (int n = 0; n < kStepTiles; ++n) {
        const uint32_t* row = keys.row(key + n * 8 + fragment.g) + fragment.t * kOwn;
#pragma unroll
        for (int i = 0; i < kOwn; i += 4) {
          const auto four = *reinterpret_cast<const uint4*>(row + i);
          multiply_add(s[n], q[i / 2], four.x, four.y);
          multiply_add(s[n], q[i / 2 + 1], four.z, four.w);
        }
      }
      float top0 = most0, top1 = most1;
#pragma unroll
      for (int n = 0; n < kStepTiles; ++n) {
        if (key + kStep > first) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (key + n * 8 + 2 * fragment.t + i % 2 > (i < 2 ? row0 : row1))
              s[n].at[i] = -INFINITY;
        }
        top0 = fmaxf(top0, fmaxf(s[n].at[0], s[n].at[1]));
        top1 = fmaxf(top1, fmaxf(s[n].at[2], s[n].at[3]));
      }
      top0 = quad_max(top0);
      top1 = quad_max(top1);
      const float shrink0 = exponential2((most0 - top0) * scale),
                  shrink1 = exponential2((most1 - top1) * scale);
      sum0 *= shrink0;
      sum1 *= shrink1;
#pragma unroll
      for (auto& c : o) {
        c.at[0] *= shrink0;
        c.at[1] *= shrink0;
        c.at[2] *= shrink1;
        c.at[3] *= shrink1;
      }
      most0 = top0;
      most1 = top1;
#pragma unroll
      for (int n = 0; n < kStepTiles; ++n) {
        auto& w = s[n].at;
        w[0] = exponential2(w[0] * scale - top0 * scale);
        w[1] = exponential2(w[1] * scale - top0 * scale);
        w[2] = exponential2(w[2] * scale - top1 * scale);
        w[3] = exponential2(w[3] * scale - top1 * scale);
        sum0 += w[0] + w[1];
        sum1 += w[2] + w[3];
        const uint32_t weights[4] = {tf32(w[0]), tf32(w[2]), tf32(w[1]), tf32(w[3])};
        const uint32_t *even = values.row(key + n * 8 + 2 * fragment.t) + fragment.g,
                       *odd = even + FloatRows<D>::kStride;
#pragma unroll
        for (int j = 0; j < D / 8; ++j) multiply_add(o[j], weights, even[j * 8], odd[j * 8]);
      }
    }
    sum0 = quad_sum(sum0);
    sum1 = quad_sum(sum1);
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      float* to = out_rows + j * 8 + 2 * fragment.t;
      if (row0 < T)
        *reinterpret_cast<float2*>(to + row0 * part) =
            make_float2(o[j].at[0] / sum0, o[j].at[1] / sum0);
      if (row1 < T)
        *reinterpret_cast<float2*>(to + row1 * part) =
            make_float2(o[j].at[2] / sum1, o[j].at[3] / sum1);
    }
  }
}

}  // namespace

void causal_attention_tf32(CudaStream stream, const float* qkv, float* out,
                           const AttentionShape& s) {
  const auto run = [&](auto width) {
    constexpr int D = width.value;
    const auto rows = static_cast<size_t>(2 * padded_attention_length(s.length));
    launch(stream,
           {s.batch * s.heads, kWarps * 32, rows * FloatRows<D>::kStride * sizeof(uint32_t)},
           forward<D>, qkv, out, static_cast<int>(s.length), static_cast<int>(s.heads),
           kLog2e / sqrtf(static_cast<float>(D)));
  };
  if (s.head_width == 32)
    run(std::integral_constant<int, 32>());
  else
    run(std::integral_constant<int, 64>());
  check_launch("causal_attention_tf32");
}

}  // namespace geores::kernels
