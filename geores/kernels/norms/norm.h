// LayerNorm and RMSNorm over rows of `width` values, forward and backward.
//   layer  y = (x − mean) / sqrt(var + eps) · weight + bias
//   rms    y = x / sqrt(mean x² + eps) · weight
// weight and bias may be null (1 and 0).
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

enum class NormKind { layer, rms };

template <class T>
struct Norm {
  NormKind kind = NormKind::layer;
  const T* weight = nullptr;
  const T* bias = nullptr;
  T eps = T(1e-5);
};

// The numbers that the backward pass needs of a row besides the row itself.
template <class T>
struct RowStatistics {
  T mean, inverse;  // mean is 0 for rms; inverse = 1/sqrt(var + eps)
};

template <class T>
RowStatistics<T> row_statistics(const T* x, int64_t width, const Norm<T>& norm);

template <class T>
void normalize_row(const T* x, const RowStatistics<T>& statistics, const Norm<T>& norm, T* y,
                   int64_t width);

// Writes the gradient of the row to dx, or adds it if `accumulate`; adds to dweight and dbias (null
// or `width` values). dx may be dy.
template <class T>
void normalize_row_backward(const T* x, const RowStatistics<T>& statistics, const Norm<T>& norm,
                            const T* dy, bool accumulate, T* dx, T* dweight, T* dbias,
                            int64_t width);

// The same for `rows` rows, on all threads. With a branch it normalizes x + branch and stores that
// sum in `sum`.
template <class T>
void norm_forward(const T* x, const Norm<T>& norm, T* y, RowStatistics<T>* statistics, int64_t rows,
                  int64_t width, const T* branch = nullptr, T* sum = nullptr);

// dx = skip + gradient; skip (rows, width) may be null. Adds to dweight and dbias. dbranch, if not
// null, gets a copy of dx. If there was a branch, x is the sum.
template <class T>
void norm_backward(const T* x, const RowStatistics<T>* statistics, const Norm<T>& norm, const T* dy,
                   const T* skip, T* dx, T* dweight, T* dbias, int64_t rows, int64_t width,
                   T* dbranch = nullptr);

inline constexpr int64_t kNormRow = 1024;  // the longest row on a GPU

// On a GPU; width up to kNormRow.
template <class T, class A>
void norm_forward(CudaStream stream, const T* x, const Norm<T>& norm, A* y,
                  RowStatistics<T>* statistics, int64_t rows, int64_t width,
                  const A* branch = nullptr, T* sum = nullptr);
template <class T, class A>
void norm_backward(CudaStream stream, const T* x, const RowStatistics<T>* statistics,
                   const Norm<T>& norm, const A* dy, const T* skip, T* dx, T* dweight, T* dbias,
                   int64_t rows, int64_t width, A* dbranch = nullptr);

}  // namespace geores::kernels
