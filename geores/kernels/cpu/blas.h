// Matrix products of the machine's BLAS, one thread per call: the kernels themselves divide the
// work among threads, in blocks of rows that stay in a core's cache.
#pragma once

#include <cstdint>

namespace geores::kernels {

enum class Transposed { no, yes };

// c (m, n) = op(a) op(b) + keep · c, all row-major; lda, ldb, ldc are the distances between rows.
void multiply(Transposed ta, Transposed tb, int64_t m, int64_t n, int64_t k, const float* a,
              int64_t lda, const float* b, int64_t ldb, float keep, float* c, int64_t ldc);
void multiply(Transposed ta, Transposed tb, int64_t m, int64_t n, int64_t k, const double* a,
              int64_t lda, const double* b, int64_t ldb, double keep, double* c, int64_t ldc);

// While an object of this class lives, OpenBLAS starts no threads of its own. OpenBLAS has one
// number of threads for the whole process: the first object sets it to 1 and the last one restores
// it. Other libraries notice by themselves that they are called from a parallel region.
class SerialBlas {
 public:
  SerialBlas();
  ~SerialBlas();
  SerialBlas(const SerialBlas&) = delete;
  SerialBlas& operator=(const SerialBlas&) = delete;
};

}  // namespace geores::kernels
