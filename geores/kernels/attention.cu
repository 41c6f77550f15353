// Causal attention in bfloat16 by matrix instructions (m16n8k16). One block does all of a head of a
// sequence: its keys and values (in the backward pass queries and output gradients too) fit shared
// memory, so that everything is read once and nothing of size T × T leaves the registers. Tiles are
// 16 × 16; those above the diagonal are not computed.
#include <cuda_bf16.h>

#include "geores/kernels/attention.h"
#include "geores/kernels/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kWarps = 8, kTile = 16;
constexpr float kLog2e = 1.4426950408889634f;

// Registers of one operand or result of a matrix instruction. Lane 4g + t holds, of a 16 × 16 left
// operand, rows g and g + 8, columns 2t, 2t + 1 and those + 8; of a 16 × 8 result, rows g and g +
// 8, columns 2t and 2t + 1.
struct Left {
  uint32_t at[4];
};
struct Result {
  float at[4] = {0, 0, 0, 0};
};

__device__ inline void multiply_add(Result& c, const Left& a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c.at[0]), "+f"(c.at[1]), "+f"(c.at[2]), "+f"(c.at[3])
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
}

template <bool Transpose>
__device__ inline void load_matrices(uint32_t (&to)[4], const BFloat16* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (Transpose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

__device__ inline uint32_t pack(float low, float high) {
  const auto both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

// A (length, D) matrix in shared memory; rows are padded by 16 bytes so that the eight rows of an
// 8 × 8 matrix lie in different banks.
template <int D>
struct Rows {
  static constexpr int kStride = D + 8;
  BFloat16* at;

  __device__ BFloat16* row(int i) const { return at + i * kStride; }

  // 16 rows from `first` on as left operands, one for each 16 columns.
  __device__ void left(int first, Left (&to)[D / 16]) const {
    const int lane = threadIdx.x % 32, matrix = lane / 8;
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
      load_matrices<false>(to[k].at,
                           row(first + matrix % 2 * 8 + lane % 8) + k * 16 + matrix / 2 * 8);
  }

  // c (16 × 16, two results) += a · (16 rows from `first` on)ᵀ.
  __device__ void add_times_transpose(const Left (&a)[D / 16], int first, Result (&c)[2]) const {
    const int lane = threadIdx.x % 32, matrix = lane / 8;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int k = 0; k < D / 32; ++k) {
        uint32_t b[4];
        load_matrices<false>(b, row(first + half * 8 + lane % 8) + k * 32 + matrix * 8);
        multiply_add(c[half], a[2 * k], b[0], b[1]);
        multiply_add(c[half], a[2 * k + 1], b[2], b[3]);
      }
  }

  // c (16 × D) += a (16 × 16) · (16 rows from `first` on).
  __device__ void add_times(const Left& a, int first, Result (&c)[D / 8]) const {
    const int lane = threadIdx.x % 32, matrix = lane / 8;
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      uint32_t b[4];
      load_matrices<true>(b, row(first + matrix % 2 * 8 + lane % 8) + n * 16 + matrix / 2 * 8);
      multiply_add(c[2 * n], a, b[0], b[1]);
      multiply_add(c[2 * n + 1], a, b[2], b[3]);
    }
  }
};

// Two results side by side, as the left operand of a further product.
__device__ inline Left as_left(const Result (&c)[2]) {
  return {{pack(c[0].at[0], c[0].at[1]), pack(c[0].at[2], c[0].at[3]), pack(c[1].at[0], c[1].at[1]),
           pack(c[1].at[2], c[1].at[3])}};
}

// Copies `length` rows of D values, `stride` apart, and zeros up to `padded`. The copies are under
// way when it returns: wait_for_copies().
template <int D>
__device__ inline void fill(const Rows<D>& to, const BFloat16* from, int64_t stride, int length,
                            int padded) {
  constexpr int pieces = D / 8;  // of 16 bytes
  for (int i = threadIdx.x; i < padded * pieces; i += blockDim.x) {
    const int row = i / pieces, piece = i % pieces;
    auto* place = to.row(row) + piece * 8;
    if (row < length)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                       static_cast<uint32_t>(__cvta_generic_to_shared(place))),
                   "l"(from + row * stride + piece * 8));
    else
      *reinterpret_cast<uint4*>(place) = make_uint4(0, 0, 0, 0);
  }
}

__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

template <int D>
__device__ inline void store_rows(const Result (&c)[D / 8], float factor0, float factor1,
                                  BFloat16* to, int64_t stride, int first, int length) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
    if (first + g < length)
      *reinterpret_cast<uint32_t*>(to + (first + g) * stride + n * 8 + 2 * t) =
          pack(c[n].at[0] * factor0, c[n].at[1] * factor0);
    if (first + g + 8 < length)
      *reinterpret_cast<uint32_t*>(to + (first + g + 8) * stride + n * 8 + 2 * t) =
          pack(c[n].at[2] * factor1, c[n].at[3] * factor1);
  }
}

__device__ inline float exponential2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

// f(tile) for this warp's tiles, back and forth so that long and short rows even out.
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
  const BFloat16* qkv;  // of position 0; keys and values are heads · D and twice that further
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
    padded = tiles * kTile;
  }
  __device__ int64_t out_offset(int D) const { return sequence * length * out_stride + head * D; }
};

template <int D>
__global__ void __launch_bounds__(kWarps * 32)
    forward(const BFloat16* qkv, BFloat16* out, float* log_sum, int T, int heads, float scale) {
  extern __shared__ __align__(16) unsigned char memory[];
  const Head h(qkv, T, heads, D);
  const Rows<D> keys{reinterpret_cast<BFloat16*>(memory)};
  const Rows<D> values{keys.row(h.padded)};
  fill(keys, h.qkv + h.part, h.in_stride, T, h.padded);
  fill(values, h.qkv + 2 * h.part, h.in_stride, T, h.padded);
  wait_for_copies();

  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for_each_tile(h.tiles, [&](int tile) {
    const int first = tile * kTile, row0 = first + g, row1 = row0 + 8;
    Left q[D / 16];
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = i % 2 == 0 ? row0 : row1, column = k * 16 + i / 2 * 8 + 2 * t;
        q[k].at[i] =
            row < T ? *reinterpret_cast<const uint32_t*>(h.qkv + row * h.in_stride + column) : 0u;
      }
    Result o[D / 8];
    float most0 = -INFINITY, most1 = -INFINITY, sum0 = 0, sum1 = 0;
    for (int key = 0; key <= tile; ++key) {
      Result s[2];
      keys.add_times_transpose(q, key * kTile, s);
      float top0 = most0, top1 = most1;
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = key * kTile + half * 8 + 2 * t + i % 2;
          auto& score = s[half].at[i];
          score = column > (i < 2 ? row0 : row1) ? -INFINITY : score * scale;
          (i < 2 ? top0 : top1) = fmaxf(i < 2 ? top0 : top1, score);
        }
      top0 = quad_max(top0);
      top1 = quad_max(top1);
      const float shrink0 = exponential2(most0 - top0), shrink1 = exponential2(most1 - top1);
      sum0 *= shrink0;
      sum1 *= shrink1;
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          auto& weight = s[half].at[i];
          weight = exponential2(weight - (i < 2 ? top0 : top1));
          (i < 2 ? sum0 : sum1) += weight;
        }
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        o[n].at[0] *= shrink0;
        o[n].at[1] *= shrink0;
        o[n].at[2] *= shrink1;
        o[n].at[3] *= shrink1;
      }
      values.add_times(as_left(s), key * kTile, o);
      most0 = top0;
      most1 = top1;
    }
    sum0 = quad_sum(sum0);
    sum1 = quad_sum(sum1);
    store_rows<D>(o, 1 / sum0, 1 / sum1, out + h.out_offset(D), h.out_stride, first, T);
    if (t == 0) {  // in units of log 2
      float* to = log_sum + static_cast<int64_t>(blockIdx.x) * T;
      if (row0 < T) to[row0] = most0 + log2f(sum0);
      if (row1 < T) to[row1] = most1 + log2f(sum1);
    }
  });
}

template <int D>
__global__ void __launch_bounds__(kWarps * 32, 2)
    backward(const BFloat16* qkv, const BFloat16* out, const float* log_sum, const BFloat16* dout,
             BFloat16* dqkv, int T, int heads, float scale) {
  extern __shared__ __align__(16) unsigned char memory[];
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
    // A row beyond the sequence has no weights: exp(… − ∞).
    logs[row] = row < T ? log_sum[static_cast<int64_t>(blockIdx.x) * T + row] : INFINITY;
    float sum = 0;
    if (row < T) {
      const auto at = h.out_offset(D) + row * h.out_stride;
#pragma unroll
      for (int c = 0; c < D; c += 4) {
        float a[4], b[4];
        load_values<4>(out + at + c, a);
        load_values<4>(dout + at + c, b);
        sum += a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
      }
    }
    deltas[row] = sum;
  }
  wait_for_copies();

  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const float to_score = scale * kLog2e;
  BFloat16* dq = dqkv + (h.qkv - qkv);
  for_each_tile(h.tiles, [&](int tile) {  // queries
    const int first = tile * kTile, row0 = first + g, row1 = row0 + 8;
    Left q[D / 16], d[D / 16];
    queries.left(first, q);
    slopes.left(first, d);
    const float log0 = logs[row0], log1 = logs[row1], delta0 = deltas[row0], delta1 = deltas[row1];
    Result sum[D / 8];
    for (int key = 0; key <= tile; ++key) {
      Result s[2], dp[2];
      keys.add_times_transpose(q, key * kTile, s);
      values.add_times_transpose(d, key * kTile, dp);
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = key * kTile + half * 8 + 2 * t + i % 2;
          const float weight = column > (i < 2 ? row0 : row1)
                                   ? 0.0f
                                   : exponential2(s[half].at[i] * to_score - (i < 2 ? log0 : log1));
          s[half].at[i] = weight * (dp[half].at[i] - (i < 2 ? delta0 : delta1));
        }
      keys.add_times(as_left(s), key * kTile, sum);
    }
    store_rows<D>(sum, scale, scale, dq, h.in_stride, first, T);
  });
  for_each_tile(h.tiles, [&](int tile) {  // keys; rows of the products are keys, columns queries
    const int first = tile * kTile, row0 = first + g, row1 = row0 + 8;
    Left k[D / 16], v[D / 16];
    keys.left(first, k);
    values.left(first, v);
    Result dk[D / 8], dv[D / 8];
    for (int query = tile; query < h.tiles; ++query) {
      Result s[2], dp[2];
      queries.add_times_transpose(k, query * kTile, s);
      slopes.add_times_transpose(v, query * kTile, dp);
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = query * kTile + half * 8 + 2 * t + i % 2;
          const float weight = column < (i < 2 ? row0 : row1)
                                   ? 0.0f
                                   : exponential2(s[half].at[i] * to_score - logs[column]);
          s[half].at[i] = weight;
          dp[half].at[i] = weight * (dp[half].at[i] - deltas[column]);
        }
      slopes.add_times(as_left(s), query * kTile, dv);
      queries.add_times(as_left(dp), query * kTile, dk);
    }
    store_rows<D>(dk, scale, scale, dq + h.part, h.in_stride, first, T);
    store_rows<D>(dv, 1.0f, 1.0f, dq + 2 * h.part, h.in_stride, first, T);
  });
}

template <int D>
size_t shared_bytes(int64_t length, int matrices) {
  const auto padded = (length + kTile - 1) / kTile * kTile;
  return static_cast<size_t>(padded) *
         (static_cast<size_t>(matrices) * Rows<D>::kStride * sizeof(BFloat16) + 2 * sizeof(float));
}

template <class F>
void with_head_width(int64_t width, F&& f) {
  if (width == 32)
    f(std::integral_constant<int, 32>());
  else
    f(std::integral_constant<int, 64>());
}

}  // namespace

void causal_attention_forward(Stream stream, const BFloat16* qkv, BFloat16* out, float* log_sum,
                              const AttentionShape& s) {
  with_head_width(s.head_width, [&](auto width) {
    const auto bytes = shared_bytes<width.value>(s.length, 2);
    cudaFuncSetAttribute(forward<width.value>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
    const float scale = kLog2e / sqrtf(static_cast<float>(s.head_width));
    forward<width.value><<<static_cast<unsigned>(s.batch * s.heads), kWarps * 32, bytes, stream>>>(
        qkv, out, log_sum, static_cast<int>(s.length), static_cast<int>(s.heads), scale);
  });
  check_launch("causal_attention_forward");
}

void causal_attention_backward(Stream stream, const BFloat16* qkv, const BFloat16* out,
                               const float* log_sum, const BFloat16* dout, BFloat16* dqkv,
                               const AttentionShape& s) {
  with_head_width(s.head_width, [&](auto width) {
    const auto bytes = shared_bytes<width.value>(s.length, 4);
    cudaFuncSetAttribute(backward<width.value>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
    backward<width.value><<<static_cast<unsigned>(s.batch * s.heads), kWarps * 32, bytes, stream>>>(
        qkv, out, log_sum, dout, dqkv, static_cast<int>(s.length), static_cast<int>(s.heads),
        1.0f / sqrtf(static_cast<float>(s.head_width)));
  });
  check_launch("causal_attention_backward");
}

}  // namespace geores::kernels
