#include "geores/kernels/cpu/blas.h"

#include <cblas.h>

#include <mutex>

// Weak, because BLAS libraries other than OpenBLAS do not have them.
extern "C" {
void openblas_set_num_threads(int) __attribute__((weak));
int openblas_get_num_threads(void) __attribute__((weak));
}

namespace geores::kernels {
namespace {

CBLAS_TRANSPOSE flag(Transposed transposed) {
  return transposed == Transposed::yes ? CblasTrans : CblasNoTrans;
}

struct {  // shared by all SerialBlas objects
  std::mutex mutex;
  int count = 0, threads_before = 1;
} serial;

int narrow(int64_t size) { return static_cast<int>(size); }

}  // namespace

void multiply(Transposed ta, Transposed tb, int64_t m, int64_t n, int64_t k, const float* a,
              int64_t lda, const float* b, int64_t ldb, float keep, float* c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, flag(ta), flag(tb), narrow(m), narrow(n), narrow(k), 1.0f, a,
              narrow(lda), b, narrow(ldb), keep, c, narrow(ldc));
}

void multiply(Transposed ta, Transposed tb, int64_t m, int64_t n, int64_t k, const double* a,
              int64_t lda, const double* b, int64_t ldb, double keep, double* c, int64_t ldc) {
  cblas_dgemm(CblasRowMajor, flag(ta), flag(tb), narrow(m), narrow(n), narrow(k), 1.0, a,
              narrow(lda), b, narrow(ldb), keep, c, narrow(ldc));
}

SerialBlas::SerialBlas() {
  if (!openblas_set_num_threads || !openblas_get_num_threads) return;
  const std::lock_guard lock(serial.mutex);
  if (serial.count++ > 0) return;
  serial.threads_before = openblas_get_num_threads();
  if (serial.threads_before > 1) openblas_set_num_threads(1);
}

SerialBlas::~SerialBlas() {
  if (!openblas_set_num_threads || !openblas_get_num_threads) return;
  const std::lock_guard lock(serial.mutex);
  if (--serial.count == 0 && serial.threads_before > 1)
    openblas_set_num_threads(serial.threads_before);
}

}  // namespace geores::kernels
