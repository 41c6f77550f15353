// dw += dyᵀ x. A block takes some of the rows, multiplies 128 columns of dy with 128 columns of x,
// and adds the result to dw in global memory. The rows are split so that all products of a launch
// together fill the GPU once.
//
// In shared memory a factor is in two halves of 64 columns, whose rows are swizzled lines.
#include "geores/kernels/dense/weight_gradient.h"

#include "geores/kernels/cuda/copies.cuh"
#include "geores/kernels/cuda/matrix.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kTile = 128;                   // columns of both factors
constexpr int kHalf = 64;                    // columns of half a tile
constexpr int kStageRows = 32, kStages = 4;  // one stage in use, three being copied
constexpr int kAhead = kStages - 1;
constexpr int kBlocks = 2;  // on a multiprocessor
constexpr int kHalfBytes = kStageRows * kLine;
constexpr int kFactorBytes = kTile / kHalf * kHalfBytes;
constexpr int kStageBytes = 2 * kFactorBytes;
constexpr size_t kShared = static_cast<size_t>(kStages) * kStageBytes;
static_assert(kStageRows * (kLine / 16) == kThreads, "a thread has a piece of a line of each half");

struct Product : WeightGradient {
  int out_tiles, tiles, splits, first_block;
};

struct Plan {
  Product products[kMostWeightGradients];
  int count = 0;
  int64_t rows = 0;

  int blocks() const {
    const auto& last = products[count - 1];
    return last.first_block + last.tiles * last.splits;
  }
};

// Starts to copy a stage of one factor, with zeros from row `end` and from column `width` on.
// `from` already points to the thread's column.
__device__ inline void fetch_rows(uint32_t to, const BFloat16* from, int64_t stride, int64_t first,
                                  int64_t end, int width) {
  const int line = threadIdx.x / 8, piece = threadIdx.x % 8;
  const int64_t row = first + line;
  const auto* source = from + min(row, end - 1) * stride;
#pragma unroll
  for (int half = 0; half < kTile / kHalf; ++half) {
    const bool there = row < end && half * kHalf + piece * 8 < width;
    copy_or_clear(to + half * kHalfBytes + swizzled(line, piece), source + half * kHalf, there);
  }
}

// A warp's part of a tile: 64 columns of dy and 32 of x.
struct Sums {
  static constexpr int kWidth = kTile / 4, kOut = kHalf / 16, kIn = kWidth / 8;
  Result c[kOut][kIn];
  uint32_t dy_offset, x_offset;  // of this lane's first matrix row in a stage

  __device__ Sums() {
    const int lane = threadIdx.x % 32, matrix = lane / 8, line = lane % 8;
    dy_offset = first_out() / kHalf * kHalfBytes + swizzled(matrix / 2 * 8 + line, matrix % 2);
    x_offset = kFactorBytes + first_in() / kHalf * kHalfBytes +
               swizzled(matrix % 2 * 8 + line, first_in() % kHalf / 8 + matrix / 2);
  }

  static __device__ int first_out() { return threadIdx.x / 128 * kHalf; }
  static __device__ int first_in() { return threadIdx.x / 32 % 4 * kWidth; }

  // The address of another piece of the same line differs by an exclusive or.
  __device__ void add_stage(uint32_t stage) {
#pragma unroll
    for (int row = 0; row < kStageRows; row += 16) {
      const uint32_t at = stage + row * kLine;
      Left a[kOut];
#pragma unroll
      for (int m = 0; m < kOut; ++m) load_matrices<true>(a[m].at, at + (dy_offset ^ m * 32));
#pragma unroll
      for (int n = 0; n < kIn; n += 2) {
        uint32_t b[4];
        load_matrices<true>(b, at + (x_offset ^ n * 16));
#pragma unroll
        for (int m = 0; m < kOut; ++m) {
          multiply_add(c[m][n], a[m], b[0], b[1]);
          multiply_add(c[m][n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  __device__ void add_to(const Product& p, int out, int in) const {
    const Total dw(p.dw, p.out, p.in);
#pragma unroll
    for (int m = 0; m < kOut; ++m)
#pragma unroll
      for (int n = 0; n < kIn; ++n)
        dw.add(out + first_out() + m * 16, in + first_in() + n * 8, c[m][n]);
  }
};

__global__ void __launch_bounds__(kThreads, kBlocks)
    add_products(const __grid_constant__ Plan plan) {
  wait_for_previous();
  GEORES_ALIGNED_SHARED_BYTES(shared, 128);
  const uint32_t memory = shared_address(shared);

  const int block = static_cast<int>(blockIdx.x);
  int index = 0;
  while (index + 1 < plan.count && block >= plan.products[index + 1].first_block) ++index;
  const Product p = plan.products[index];
  const int tile = (block - p.first_block) / p.splits, split = (block - p.first_block) % p.splits;
  const int out = tile % p.out_tiles * kTile, in = tile / p.out_tiles * kTile;
  const int64_t stages = (plan.rows + kStageRows - 1) / kStageRows;
  const int first = static_cast<int>(stages * split / p.splits),
            end = static_cast<int>(stages * (split + 1) / p.splits);

  const int thread_column = threadIdx.x % 8 * 8;
  const auto* dy = p.dy + out + thread_column;
  const auto* x = p.x + in + thread_column;
  const auto address_of = [&](int stage) {
    return memory + (stage - first) % kStages * kStageBytes;
  };
  const auto fetch = [&](int stage) {
    if (stage < end) {
      const uint32_t to = address_of(stage);
      const int64_t row = static_cast<int64_t>(stage) * kStageRows;
      fetch_rows(to, dy, p.out, row, plan.rows, static_cast<int>(p.out) - out);
      fetch_rows(to + kFactorBytes, x, p.in, row, plan.rows, static_cast<int>(p.in) - in);
    }
    end_copies();  // even without copies: wait_for_copy_groups counts groups
  };
#pragma unroll
  for (int ahead = 0; ahead < kAhead; ++ahead) fetch(first + ahead);

  Sums sums;
#pragma unroll 1
  for (int stage = first; stage < end; ++stage) {
    wait_for_copy_groups<kAhead - 1>();
    __syncthreads();  // all threads see this stage and have read the one that is filled next
    fetch(stage + kAhead);
    sums.add_stage(address_of(stage));
  }
  sums.add_to(p, out, in);
}

int tiles_of(int64_t width) { return static_cast<int>((width + kTile - 1) / kTile); }

Product product_of(const WeightGradient& p) {
  const int out_tiles = tiles_of(p.out);
  return {p, out_tiles,
          /*tiles=*/out_tiles * tiles_of(p.in),
          /*splits=*/1,
          /*first_block=*/0};
}

// Splits the rows of the product with the longest blocks, again and again, as long as the GPU has
// capacity for more blocks and each block keeps enough rows to amortise its additions.
void split_rows(Plan& plan) {
  constexpr int least_rows = 128;
  const int capacity = multiprocessors() * kBlocks;
  const int64_t most = (plan.rows + least_rows - 1) / least_rows;
  auto* const begin = plan.products;
  auto* const end = begin + plan.count;
  int blocks = 0;
  for (auto* p = begin; p != end; ++p) blocks += p->tiles;
  while (true) {
    auto& longest = *std::min_element(
        begin, end, [](const Product& a, const Product& b) { return a.splits < b.splits; });
    if (longest.splits >= most || blocks + longest.tiles > capacity) break;
    blocks += longest.tiles;
    ++longest.splits;
  }
  int first = 0;
  for (auto* p = begin; p != end; ++p) {
    p->first_block = first;
    first += p->tiles * p->splits;
  }
}

}  // namespace

void add_weight_gradients(CudaStream stream, const WeightGradient* products, int count,
                          int64_t rows) {
  if (count > kMostWeightGradients)
    throw std::invalid_argument("add_weight_gradients: more products than fit into a launch");
  Plan plan;
  plan.rows = rows;
  for (int i = 0; i < count; ++i) {
    const auto& p = products[i];
    if (!fits_weight_gradient(p.out, p.in))
      throw std::invalid_argument("add_weight_gradients: sizes that are not multiples of 8");
    if (p.out > 0 && p.in > 0) plan.products[plan.count++] = product_of(p);
  }
  if (plan.count == 0 || rows == 0) return;
  split_rows(plan);
  launch(stream, {plan.blocks(), kThreads, kShared}, add_products, plan);
  check_launch("add_weight_gradients");
}

}  // namespace geores::kernels
