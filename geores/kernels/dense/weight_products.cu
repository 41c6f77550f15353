// Products of weights. A block computes 64 × 64 values of one result. Its factors go through shared
// memory, 128 summands at a time. A block of a product does all summands one after the other and
// writes the result. For gradients, which are added to memory, each 128 summands have a block of
// their own.
//
// In shared memory a factor has two parts of 64 × 64 values, one for each half of the 128 summands.
// The rows of a part are swizzled lines in the order of global memory.
#include "geores/kernels/dense/weight_products.h"

#include "geores/kernels/cuda/copies.cuh"
#include "geores/kernels/cuda/matrix.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kTile = 64;
constexpr int kDepth = 128;
constexpr int kParts = kDepth / kTile;
constexpr int kPartBytes = kTile * kLine;
constexpr int kFactorBytes = kParts * kPartBytes;
constexpr int kPieces = kTile / 8;  // 16-byte pieces of a line
constexpr int kWarpTile = 32;       // rows and columns of a warp's result
constexpr int kTileThreads = kTile / kWarpTile * kTile / kWarpTile * 32;
// Blocks on a multiprocessor; so many that all products of a small model run at once.
constexpr int kProductBlocks = 4, kGradientBlocks = 5;
static_assert(kTile * sizeof(BFloat16) == kLine, "a row of a part is a line");

// The meaning of a factor's rows in memory, which are the lines here: `outer`, the rows or columns
// of the result, or `inner`, the summands.
enum class Lines { outer, inner };

template <class T>
struct Factor {
  const T* values;
  int rows, columns;
};

__device__ inline bool is_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

// Eight values as bfloat16. Weights may start at any address.
__device__ inline uint4 eight_values(const BFloat16* from) {
  const auto two = [from](int i) {
    return from[i].bits | static_cast<uint32_t>(from[i + 1].bits) << 16;
  };
  return make_uint4(two(0), two(2), two(4), two(6));
}
__device__ inline uint4 eight_values(const float* from) {
  float x[8];
  load_values<4>(from, x);
  load_values<4>(from + 4, x + 4);
  return make_uint4(pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7]));
}

// Starts to copy 64 rows or columns of the result starting at `outer`, and 128 summands starting at
// `inner`, with zeros beyond the factor. They have arrived after wait_for_copies().
template <Lines L, class T>
__device__ inline void fetch(unsigned char* to, const Factor<T>& from, int outer, int inner) {
  constexpr int rounds = kTile * kPieces / kTileThreads;  // for one part
  const auto each = [&](auto&& f) {
#pragma unroll
    for (int i = 0; i < kParts * rounds; ++i) {
      const int part = i / rounds, at = i % rounds * kTileThreads + static_cast<int>(threadIdx.x);
      const int line = at / kPieces, piece = at % kPieces, summand = inner + part * kTile;
      const int row = line + (L == Lines::inner ? summand : outer),
                column = piece * 8 + (L == Lines::inner ? outer : summand);
      const bool there = row < from.rows && column < from.columns;
      f(i, to + part * kPartBytes + swizzled(line, piece),
        from.values + (there ? static_cast<int64_t>(row) * from.columns + column : 0), there);
    }
  };
  if constexpr (sizeof(T) == sizeof(BFloat16))
    if (is_aligned(from.values)) {
      each([](int, unsigned char* address, const T* source, bool there) {
        copy_or_clear(shared_address(address), source, there);
      });
      return;
    }
  uint4 held[kParts * rounds];  // all reads come before the first write, so that they overlap
  each([&](int i, unsigned char*, const T* source, bool there) {
    held[i] = there ? eight_values(source) : make_uint4(0, 0, 0, 0);
  });
  each([&](int i, unsigned char* address, const T*, bool) {
    *reinterpret_cast<uint4*>(address) = held[i];
  });
}

// Loads four 8 × 8 matrices of a part. Eight lanes give the position of each matrix, in multiples
// of 8.
template <Lines L>
__device__ inline void load_from_part(uint32_t (&to)[4], uint32_t part, int outer, int inner) {
  const int line = static_cast<int>(threadIdx.x) % 8;
  if constexpr (L == Lines::outer)
    load_matrices<false>(to, part + swizzled(outer + line, inner / 8));
  else
    load_matrices<true>(to, part + swizzled(inner + line, outer / 8));
}

// A warp's part of a block's result.
struct Sums {
  static constexpr int kDown = kWarpTile / 16, kAcross = kWarpTile / 8;
  Result c[kDown][kAcross];

  static __device__ int first_row() {
    return static_cast<int>(threadIdx.x) / 32 / (kTile / kWarpTile) * kWarpTile;
  }
  static __device__ int first_column() {
    return static_cast<int>(threadIdx.x) / 32 % (kTile / kWarpTile) * kWarpTile;
  }

  // Adds the product of the two factors in shared memory.
  template <Lines L, Lines R>
  __device__ void add(uint32_t left, uint32_t right) {
    const int matrix = static_cast<int>(threadIdx.x) % 32 / 8;
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      const int part = k / kTile * kPartBytes, inner = k % kTile;
      Left a[kDown];
#pragma unroll
      for (int m = 0; m < kDown; ++m)
        load_from_part<L>(a[m].at, left + part, first_row() + m * 16 + matrix % 2 * 8,
                          inner + matrix / 2 * 8);
#pragma unroll
      for (int n = 0; n < kAcross; n += 2) {
        uint32_t b[4];
        load_from_part<R>(b, right + part, first_column() + n * 8 + matrix / 2 * 8,
                          inner + matrix % 2 * 8);
#pragma unroll
        for (int m = 0; m < kDown; ++m) {
          multiply_add(c[m][n], a[m], b[0], b[1]);
          multiply_add(c[m][n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  // f(first row, first column, result) for each result of this warp; the block's result begins at
  // (row, column).
  template <class F>
  __device__ void for_each(int row, int column, F&& f) const {
#pragma unroll
    for (int m = 0; m < kDown; ++m)
#pragma unroll
      for (int n = 0; n < kAcross; ++n)
        f(row + first_row() + m * 16, column + first_column() + n * 8, c[m][n]);
  }
};

// Adds 128 summands starting at `inner` to the result that begins at (row, column).
template <Lines L, Lines R, class A, class B>
__device__ inline void add_products(Sums& sums, unsigned char* shared, const Factor<A>& left,
                                    const Factor<B>& right, int row, int column, int inner) {
  auto* const left_tile = shared;
  auto* const right_tile = shared + kFactorBytes;
  if constexpr (sizeof(A) == sizeof(BFloat16)) {
    fetch<L>(left_tile, left, row, inner);
    fetch<R>(right_tile, right, column, inner);
  } else {  // the converted factor comes last: it waits for its values
    fetch<R>(right_tile, right, column, inner);
    fetch<L>(left_tile, left, row, inner);
  }
  wait_for_copies();
  sums.add<L, R>(shared_address(left_tile), shared_address(right_tile));
}

constexpr int pieces_of(int64_t size, int piece) {
  return static_cast<int>((size + piece - 1) / piece);
}

template <class Product>
struct Plan {
  Product products[kMostWeightProducts];
  int first_block[kMostWeightProducts + 1] = {0};  // the last entry is the number of blocks
  int count = 0;

  void add(const Product& product, int blocks) {
    products[count] = product;
    first_block[count + 1] = first_block[count] + blocks;
    ++count;
  }
  int blocks() const { return first_block[count]; }

  __device__ int product_of(int block) const {
    int index = 0;
    while (index + 1 < count && block >= first_block[index + 1]) ++index;
    return index;
  }
};

__global__ void __launch_bounds__(kTileThreads, kProductBlocks)
    multiply(const __grid_constant__ Plan<WeightProduct> plan) {
  wait_for_previous();
  __shared__ __align__(128) unsigned char shared[2 * kFactorBytes];
  const int block = static_cast<int>(blockIdx.x), index = plan.product_of(block),
            tile = block - plan.first_block[index];
  const WeightProduct p = plan.products[index];
  const int rows = static_cast<int>(p.rows), inner = static_cast<int>(p.inner),
            columns = static_cast<int>(p.columns), down = pieces_of(rows, kTile);
  const int row = tile % down * kTile, column = tile / down * kTile;

  Sums sums;
#pragma unroll 1
  for (int first = 0; first < inner; first += kDepth) {
    if (first > 0) __syncthreads();  // all threads have read the values that are overwritten now
    add_products<Lines::outer, Lines::inner>(sums, shared, Factor<BFloat16>{p.a, rows, inner},
                                             Factor<BFloat16>{p.b, inner, columns}, row, column,
                                             first);
  }
  const FragmentLane fragment;
  sums.for_each(row, column, [&](int r, int c, const Result& result) {
    if (c >= columns) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = r + fragment.g + 8 * half;
      if (at < rows)
        *reinterpret_cast<uint32_t*>(p.product + static_cast<int64_t>(at) * columns + c +
                                     2 * fragment.t) =
            pack(result.at[2 * half], result.at[2 * half + 1]);
    }
  });
}

// The division of one of the two gradients into shares, one for each block.
struct Shares {
  int down, across, deep;

  __host__ __device__ Shares(int64_t rows, int64_t columns, int64_t inner)
      : down(pieces_of(rows, kTile)),
        across(pieces_of(columns, kTile)),
        deep(pieces_of(inner, kDepth)) {}

  __host__ __device__ int count() const { return down * across * deep; }
  __device__ int row(int share) const { return share % down * kTile; }
  __device__ int column(int share) const { return share / down % across * kTile; }
  __device__ int inner(int share) const { return share / down / across * kDepth; }
};

__host__ __device__ Shares shares_of_a(const WeightProductGradient& p) {
  return {p.rows, p.inner, p.columns};
}
__host__ __device__ Shares shares_of_b(const WeightProductGradient& p) {
  return {p.inner, p.columns, p.rows};
}

__global__ void __launch_bounds__(kTileThreads, kGradientBlocks)
    add_gradients(const __grid_constant__ Plan<WeightProductGradient> plan) {
  wait_for_previous();
  __shared__ __align__(128) unsigned char shared[2 * kFactorBytes];
  const int block = static_cast<int>(blockIdx.x), index = plan.product_of(block);
  const WeightProductGradient p = plan.products[index];
  const int rows = static_cast<int>(p.rows), inner = static_cast<int>(p.inner),
            columns = static_cast<int>(p.columns);
  const Factor<BFloat16> a{p.a, rows, inner}, b{p.b, inner, columns};
  const Factor<float> d{p.d, rows, columns};
  const auto of_a = shares_of_a(p), of_b = shares_of_b(p);
  const int share = block - plan.first_block[index], share_of_b = share - of_a.count();

  Sums sums;
  const auto add_to = [&sums](const Total& total, int row, int column) {
    sums.for_each(row, column,
                  [&](int r, int c, const Result& result) { total.add(r, c, result); });
  };
  if (share_of_b < 0) {
    const int row = of_a.row(share), column = of_a.column(share);
    add_products<Lines::outer, Lines::outer>(sums, shared, d, b, row, column, of_a.inner(share));
    add_to(Total(p.da, rows, inner), row, column);
  } else {
    const int row = of_b.row(share_of_b), column = of_b.column(share_of_b);
    add_products<Lines::inner, Lines::inner>(sums, shared, a, d, row, column,
                                             of_b.inner(share_of_b));
    add_to(Total(p.db, inner, columns), row, column);
  }
}

// Launches kernel(plan) for all products, as many in one launch as fit; blocks_for(product) is the
// number of blocks of one.
template <class Product, class BlocksFor>
void launch_all(CudaStream stream, const Product* products, int count, const BlocksFor& blocks_for,
                void (*kernel)(Plan<Product>), const char* what) {
  for (int first = 0; first < count; first += kMostWeightProducts) {
    Plan<Product> plan;
    for (int i = first; i < std::min(count, first + kMostWeightProducts); ++i) {
      const auto& p = products[i];
      if (!fits_weight_product(p.rows, p.inner, p.columns))
        throw std::invalid_argument(std::string(what) + ": sizes that are not multiples of 8");
      plan.add(p, blocks_for(p));
    }
    launch(stream, {plan.blocks(), kTileThreads}, kernel, plan);
    check_launch(what);
  }
}

}  // namespace

void multiply_weights(CudaStream stream, const WeightProduct* products, int count) {
  launch_all(
      stream, products, count,
      [](const WeightProduct& p) { return pieces_of(p.rows, kTile) * pieces_of(p.columns, kTile); },
      multiply, "multiply_weights");
}

void add_weight_product_gradients(CudaStream stream, const WeightProductGradient* gradients,
                                  int count) {
  launch_all(
      stream, gradients, count,
      [](const WeightProductGradient& p) {
        return shares_of_a(p).count() + shares_of_b(p).count();
      },
      add_gradients, "add_weight_product_gradients");
}

}  // namespace geores::kernels
