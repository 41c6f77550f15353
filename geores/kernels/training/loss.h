// Losses. They are summed in pieces of fixed size, so the result is the same for any number of
// threads.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// mean (x − y)², and dx = 2 (x − y) · scale / size.
template <class T>
double squared_error_forward(const T* x, const T* y, int64_t size);
template <class T>
void squared_error_backward(const T* x, const T* y, T scale, T* dx, int64_t size);

// On a GPU, the mean and the scale are in device memory; `partial` has space for kErrorSums values.
// A bias (columns), or null, is added to x (rows, columns) first.
inline constexpr int kErrorSums = 256;
template <class T>
struct Prediction {
  const T *x, *bias;
  int64_t rows, columns;
};
template <class T>
void squared_error_forward(CudaStream stream, const Prediction<T>& prediction, const T* y,
                           double* partial, T* mean);
template <class T>
void squared_error_backward(CudaStream stream, const Prediction<T>& prediction, const T* y,
                            const T* scale, T* dx);

// The same for x that comes from a product: dx has the type of that product's factors, and dbias is
// added to; columns up to kMostErrorColumns.
inline constexpr int64_t kMostErrorColumns = 256;
template <class T, class A>
void squared_error_backward(CudaStream stream, const Prediction<T>& prediction, const T* y,
                            const T* scale, A* dx, T* dbias);

struct CrossEntropy {
  double mean;    // over the rows whose target is not −1; NaN if there are none
  int64_t count;  // of those rows
};

// −log softmax(logits)[target] per row: logits (rows, classes), targets (rows) in −1..classes−1.
// log_sum (rows) is stored for the backward pass.
template <class T>
CrossEntropy cross_entropy_forward(const T* logits, const int64_t* targets, T* log_sum,
                                   int64_t rows, int64_t classes);

// (softmax − onehot) · scale, 0 for rows without a target.
template <class T>
void cross_entropy_backward(const T* logits, const int64_t* targets, const T* log_sum, T scale,
                            T* dlogits, int64_t rows, int64_t classes);

}  // namespace geores::kernels
