// y = Norm(x) Wᵀ + b without ever holding all of Norm(x): a block of rows is normalized, multiplied
// and forgotten, and normalized again in the backward pass.
//   x (rows, in), w (out, in), bias (out) or null, y (rows, out), statistics (rows)
#pragma once

#include "geores/kernels/norm.h"

namespace geores::kernels {

struct LinearShape {
  int64_t rows, in, out;
};

template <class T>
void normalized_linear_forward(const T* x, const Norm<T>& norm, const T* w, const T* bias, T* y,
                               RowStatistics<T>* statistics, const LinearShape& shape);

template <class T>
struct NormalizedLinearGradients {
  T* x;            // skip + gradient, overwritten
  T* norm_weight;  // these four are added to, or null
  T* norm_bias;
  T* w;
  T* bias;
};

template <class T>
void normalized_linear_backward(const T* x, const Norm<T>& norm, const RowStatistics<T>* statistics,
                                const T* w, const T* dy, const T* skip,
                                const NormalizedLinearGradients<T>& gradients,
                                const LinearShape& shape);

}  // namespace geores::kernels
