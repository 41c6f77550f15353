// Several scaled projections of the same input as one product, on a GPU: their weights are stacked,
// and each row is multiplied by its scale.
#pragma once

#include "geores/kernels/device.h"

namespace geores::kernels {

inline constexpr int kMostProjections = 8;

template <class T>
struct ProjectionArrays {
  T *weight, *bias, *scale;  // (rows, in), (rows), (scales) or null for 1
  int rows, scales;          // consecutive rows share a scale: rows is a multiple of scales
};

template <class T>
struct Projections {
  ProjectionArrays<T> each[kMostProjections];
  int count, in;

  constexpr int rows() const {
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += each[i].rows;
    return sum;
  }
};

// packed (rows, in), bias (rows).
template <class T, class A>
void pack_projections(CudaStream stream, const Projections<const T>& projections, A* packed,
                      T* bias);

// Adds what dpacked and dbias mean for the weights, biases and scales to their gradients.
template <class T>
void unpack_projection_gradients(CudaStream stream, const Projections<const T>& projections,
                                 const T* dpacked, const T* dbias, const Projections<T>& gradients);

// out = x + row + bias. x and out (rows, columns), which may be the same, have few rows and many
// columns. row is (columns). bias (period), or null for 0, is repeated; the columns are a multiple
// of its period.
template <class T>
void add_rows(CudaStream stream, const T* x, const T* row, const T* bias, T* out, int64_t rows,
              int64_t columns, int64_t period);

// The same at the end of a product with so few inputs that it costs nothing compared with writing its
// result:
//   y = x Wᵀ + row + bias: x (sequences, length, in), w (out, in), row (length, out), bias (out)
struct ProductAndRowsShape {
  int64_t sequences, length, in, out;
};
constexpr bool fits_product_and_rows(int64_t in, int64_t out) {
  return (in == 8 || in == 16) && out % 4 == 0;
}
void product_and_rows(CudaStream stream, const BFloat16* x, const BFloat16* w, const float* row,
                      const float* bias, float* y, const ProductAndRowsShape& shape);

// The backward pass: adds the sums of dout over rows to drow, and their sums over periods to dbias
// (or null). `converted`, if not null, gets dout in its type.
template <class T, class A>
void sum_rows(CudaStream stream, const T* dout, A* converted, T* drow, T* dbias, int64_t rows,
              int64_t columns, int64_t period);

// Converts a gradient to the type of activations and sums the gradient of a bias in the same pass:
// y = x in its type, sums (columns) += Σ over rows; columns up to kMostSummedColumns.
inline constexpr int64_t kMostSummedColumns = 256;
template <class T, class A>
void convert_and_sum(CudaStream stream, const T* x, A* y, T* sums, int64_t rows, int64_t columns);

}  // namespace geores::kernels
