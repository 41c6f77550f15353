// Products with weights in bfloat16 whose rows never leave the registers of a warp (16 of them)
// between the first product and the last. Weights go through shared memory, for all rows of a
// block.
#include "geores/kernels/gelu.cuh"
#include "geores/kernels/linear.h"
#include "geores/kernels/matrix.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kTile = 16, kPiece = 64;  // rows of a warp; hidden units whose weights come together
constexpr int kPerceptronWarps = 8;     // few blocks: each of them reads all weights
constexpr int kLinearWarps = 4;

__device__ inline int first_row() {
  return static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32) * kTile;
}

// Results that start from the state, or from zero.
template <int Tiles>
__device__ inline void load_state(const float* state, int64_t stride, int first, int length,
                                  Result (&c)[Tiles]) {
  const Place place;
#pragma unroll
  for (int n = 0; n < Tiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + place.g + 8 * half;
      if (row >= length) continue;
      const auto two = *reinterpret_cast<const float2*>(state + row * stride + n * 8 + 2 * place.t);
      c[n].at[2 * half] = two.x;
      c[n].at[2 * half + 1] = two.y;
    }
}

template <int Tiles>
__device__ inline void store_state(const Result (&c)[Tiles], float* state, int64_t stride,
                                   int first, int length) {
  const Place place;
#pragma unroll
  for (int n = 0; n < Tiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + place.g + 8 * half;
      if (row < length)
        *reinterpret_cast<float2*>(state + row * stride + n * 8 + 2 * place.t) =
            make_float2(c[n].at[2 * half], c[n].at[2 * half + 1]);
    }
}

template <int W>
struct Piece {  // of both weights: kPiece hidden units
  Rows<W> up;
  Rows<kPiece> down;

  static constexpr size_t kBytes = Rows<W>::bytes(kPiece) + Rows<kPiece>::bytes(W);

  __device__ explicit Piece(unsigned char* memory)
      : up{reinterpret_cast<BFloat16*>(memory)}, down{up.row(kPiece)} {}

  __device__ void begin_load(const BFloat16* w1, const BFloat16* w2, int hidden, int index) const {
    fill(up, w1 + static_cast<int64_t>(index) * kPiece * W, W, kPiece, kPiece);
    fill(down, w2 + index * kPiece, hidden, W, W);
    end_group_of_copies();
  }
};

// f(piece, its first unit) for all of them; the next one is on its way meanwhile.
template <int W, class F>
__device__ inline void for_each_piece(unsigned char* memory, const BFloat16* w1, const BFloat16* w2,
                                      int hidden, F&& f) {
  const auto piece = [&](int index) { return Piece<W>(memory + index % 2 * Piece<W>::kBytes); };
  piece(0).begin_load(w1, w2, hidden, 0);
  for (int index = 0; index < hidden / kPiece; ++index) {
    if (index + 1 < hidden / kPiece) {
      piece(index + 1).begin_load(w1, w2, hidden, index + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    f(piece(index), index * kPiece);
    __syncthreads();
  }
}

template <int W, class Y>
__global__ void __launch_bounds__(kPerceptronWarps * 32, 1)
    perceptron(const BFloat16* x, const BFloat16* w1, const BFloat16* w2, const float* skip, Y* y,
               int rows, int hidden) {
  extern __shared__ __align__(16) unsigned char memory[];
  const int first = first_row();
  Left in[W / 16];
  load_left(x, W, first, rows, in);
  Result out[W / 8];
  if constexpr (sizeof(Y) == 4) load_state(skip, W, first, rows, out);
  for_each_piece<W>(memory, w1, w2, hidden, [&](const Piece<W>& piece, int) {
    Result h[kPiece / 8];
    piece.up.add_times_transpose(in, 0, h);
    Left active[kPiece / 16];
#pragma unroll
    for (int n = 0; n < kPiece / 8; ++n)
#pragma unroll
      for (auto& value : h[n].at) value *= RoughNormal(value).distribution;
#pragma unroll
    for (int k = 0; k < kPiece / 16; ++k) active[k] = as_left(h[2 * k], h[2 * k + 1]);
    piece.down.add_times_transpose(active, 0, out);
  });
  if constexpr (sizeof(Y) == 4)
    store_state(out, y, W, first, rows);
  else
    store_rows(out, 1.0f, 1.0f, y, W, first, rows);
}

template <int W, class Y>
__global__ void __launch_bounds__(kPerceptronWarps * 32, 1)
    perceptron_back(PerceptronBackward<Y> p, int rows, int hidden) {
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int part = 32, tiles = part / 8;  // hidden units at a time: as registers allow
  const int first = first_row();
  Left in[W / 16], dy[W / 16];
  load_left(p.x, W, first, rows, in);
  load_left(p.dy, W, first, rows, dy);
  if constexpr (sizeof(Y) == 4) store_left(dy, p.dy_rounded, W, first, rows);
  Result dx[W / 8];
  for_each_piece<W>(memory, p.w1, p.w2, hidden, [&](const Piece<W>& piece, int unit) {
#pragma unroll
    for (int begin = 0; begin < kPiece; begin += part) {
      Result h[tiles], d[tiles];
      piece.up.add_times_transpose(in, begin, h);
      piece.down.add_times(dy, 0, begin, d);
#pragma unroll
      for (int n = 0; n < tiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const RoughNormal normal(h[n].at[i]);
          h[n].at[i] *= normal.distribution;
          d[n].at[i] *= normal.distribution + normal.scaled_density;
        }
      store_rows(h, 1.0f, 1.0f, p.active + unit + begin, hidden, first, rows);
      store_rows(d, 1.0f, 1.0f, p.dhidden + unit + begin, hidden, first, rows);
      Left slope[tiles / 2];
#pragma unroll
      for (int k = 0; k < tiles / 2; ++k) slope[k] = as_left(d[2 * k], d[2 * k + 1]);
      piece.up.add_times(slope, begin, 0, dx);
    }
  });
  store_rows(dx, 1.0f, 1.0f, p.dx, W, first, rows);
}

template <int W>
__global__ void __launch_bounds__(kLinearWarps * 32)
    add_linear(const BFloat16* x, const BFloat16* w, const float* skip, float* y, int rows) {
  extern __shared__ __align__(16) unsigned char memory[];
  const Rows<W> weight{reinterpret_cast<BFloat16*>(memory)};
  fill(weight, w, W, W, W);
  end_group_of_copies();
  const int first = first_row();
  Left in[W / 16];
  Result out[W / 8];
  load_left(x, W, first, rows, in);
  load_state(skip, W, first, rows, out);
  wait_for_copies<0>();
  weight.add_times_transpose(in, 0, out);
  store_state(out, y, W, first, rows);
}

template <int W>
__global__ void __launch_bounds__(kLinearWarps * 32)
    add_linear_back(const BFloat16* w, const float* dy, BFloat16* dx, BFloat16* dy_rounded,
                    int rows) {
  extern __shared__ __align__(16) unsigned char memory[];
  const Rows<W> weight{reinterpret_cast<BFloat16*>(memory)};
  fill(weight, w, W, W, W);
  end_group_of_copies();
  const int first = first_row();
  Left in[W / 16];
  Result out[W / 8];
  load_left(dy, W, first, rows, in);
  store_left(in, dy_rounded, W, first, rows);
  wait_for_copies<0>();
  weight.add_times(in, 0, 0, out);
  store_rows(out, 1.0f, 1.0f, dx, W, first, rows);
}

template <class F>
void with_width(int64_t width, F&& f) {
  if (width == 64)
    f(std::integral_constant<int, 64>());
  else
    f(std::integral_constant<int, 128>());
}

unsigned blocks(int64_t rows, int warps) {
  return static_cast<unsigned>((rows + warps * kTile - 1) / (warps * kTile));
}

// More than 48 KiB of shared memory has to be asked for.
template <class Kernel>
void allow_shared(Kernel* kernel, size_t bytes) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(bytes));
}

}  // namespace

template <class Y>
void perceptron_forward(Stream stream, const BFloat16* x, const BFloat16* w1, const BFloat16* w2,
                        const float* skip, Y* y, const PerceptronShape& s) {
  if (s.rows == 0) return;
  with_width(s.in, [&](auto width) {
    constexpr int W = width.value;
    constexpr auto bytes = 2 * Piece<W>::kBytes;
    allow_shared(perceptron<W, Y>, bytes);
    perceptron<W, Y><<<blocks(s.rows, kPerceptronWarps), kPerceptronWarps * 32, bytes, stream>>>(
        x, w1, w2, skip, y, static_cast<int>(s.rows), static_cast<int>(s.hidden));
  });
  check_launch("perceptron_forward");
}

template <class Y>
void perceptron_backward(Stream stream, const PerceptronBackward<Y>& p, const PerceptronShape& s) {
  if (s.rows == 0) return;
  with_width(s.in, [&](auto width) {
    constexpr int W = width.value;
    constexpr auto bytes = 2 * Piece<W>::kBytes;
    allow_shared(perceptron_back<W, Y>, bytes);
    perceptron_back<W, Y>
        <<<blocks(s.rows, kPerceptronWarps), kPerceptronWarps * 32, bytes, stream>>>(
            p, static_cast<int>(s.rows), static_cast<int>(s.hidden));
  });
  check_launch("perceptron_backward");
}

void add_linear_forward(Stream stream, const BFloat16* x, const BFloat16* w, const float* skip,
                        float* y, int64_t rows, int64_t width) {
  if (rows == 0) return;
  with_width(width, [&](auto fixed) {
    constexpr int W = fixed.value;
    add_linear<W><<<blocks(rows, kLinearWarps), kLinearWarps * 32, Rows<W>::bytes(W), stream>>>(
        x, w, skip, y, static_cast<int>(rows));
  });
  check_launch("add_linear_forward");
}

void add_linear_backward(Stream stream, const BFloat16* w, const float* dy, BFloat16* dx,
                         BFloat16* dy_rounded, int64_t rows, int64_t width) {
  if (rows == 0) return;
  with_width(width, [&](auto fixed) {
    constexpr int W = fixed.value;
    add_linear_back<W>
        <<<blocks(rows, kLinearWarps), kLinearWarps * 32, Rows<W>::bytes(W), stream>>>(
            w, dy, dx, dy_rounded, static_cast<int>(rows));
  });
  check_launch("add_linear_backward");
}

#define GEORES_INSTANTIATE(Y)                                                                 \
  template void perceptron_forward(Stream, const BFloat16*, const BFloat16*, const BFloat16*, \
                                   const float*, Y*, const PerceptronShape&);                 \
  template void perceptron_backward(Stream, const PerceptronBackward<Y>&, const PerceptronShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(BFloat16)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
