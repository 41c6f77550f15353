// Matrix products of one thread, for matrices of a few hundred rows and columns: a block of tokens
// times the weights of a layer. The right-hand side is packed once for many blocks; a BLAS would
// pack it again in every call. All matrices are row-major; lda, ldb and ldc are the distances
// between their rows. P is the type that factors are rounded to: T itself, or BFloat16 with
// float.
#pragma once

#include <cstdint>

#include "geores/kernels/cpu/bfloat16_product.h"
#include "geores/kernels/cpu/blas.h"
#include "geores/kernels/device.h"

namespace geores::kernels {

// A matrix (depth, columns) to multiply with from the right, in memory for packed_size() values
// that the caller gives. For a few rows in all packing does not pay: then nothing is copied, and b
// must outlive this object.
template <class T, class P = T>
class RightHandSide {
 public:
  using Packed = T;
  static int64_t packed_size(int64_t depth, int64_t columns);

  // b is (depth, columns), or (columns, depth) if transposed. `rows` is the number of rows of all
  // products together.
  RightHandSide(Transposed transposed, const T* b, int64_t ldb, int64_t depth, int64_t columns,
                int64_t rows, Packed* buffer);

  // c (rows, columns) = a (rows, depth) · this, or added to c.
  void multiply(const T* a, int64_t lda, bool add, T* c, int64_t ldc, int64_t rows) const;

 private:
  Transposed transposed_;
  const T* b_;
  int64_t ldb_, depth_, columns_;
  const T* packed_;  // null: b was not packed
};

template <>
class RightHandSide<float, BFloat16> {
 public:
  using Packed = unsigned char;
  static int64_t packed_size(int64_t depth, int64_t columns);

  RightHandSide(Transposed transposed, const float* b, int64_t ldb, int64_t depth, int64_t columns,
                int64_t rows, Packed* buffer);

  void multiply(const float* a, int64_t lda, bool add, float* c, int64_t ldc, int64_t rows) const;

 private:
  int64_t depth_;
  PackedFactor packed_;
};

// c (m, n) += aᵀ b with a (rows, m) and b (rows, n): the gradient of weights from a block of rows.
template <class T, class P = T>
void add_transposed_product(const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
                            int64_t m, int64_t n, int64_t rows);
template <>
void add_transposed_product<float, BFloat16>(const float* a, int64_t lda, const float* b,
                                             int64_t ldb, float* c, int64_t ldc, int64_t m,
                                             int64_t n, int64_t rows);

}  // namespace geores::kernels
