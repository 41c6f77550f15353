// y = Norm(x) Wᵀ + b without ever storing all of Norm(x). A block of rows is normalized, multiplied
// and forgotten; the backward pass normalizes it again. The norm has no weight and bias here: they
// are part of W and b, where they cost nothing per row. P is the type that factors of products are
// rounded to: T itself, or BFloat16 with float.
//   x (rows, in), w (out, in), bias (out) or null, y (rows, out), statistics (rows)
#pragma once

#include "geores/kernels/cpu/product.h"
#include "geores/kernels/norms/norm.h"

namespace geores::kernels {

struct LinearShape {
  int64_t rows, in, out;
};

template <class T, class P = T>
void normalized_linear_forward(const T* x, const Norm<T>& norm, const T* w, const T* bias, T* y,
                               RowStatistics<T>* statistics, const LinearShape& shape);

template <class T>
struct NormalizedLinearGradients {
  T* x;     // skip + gradient, overwritten
  T* w;     // added to
  T* bias;  // added to, or null
};

template <class T, class P = T>
void normalized_linear_backward(const T* x, const Norm<T>& norm, const RowStatistics<T>* statistics,
                                const T* w, const T* dy, const T* skip,
                                const NormalizedLinearGradients<T>& gradients,
                                const LinearShape& shape);

// The same for one thread. It packs the weights once and then gets its rows block by block, at most
// kNormalizedRows at a time. This class and NormalizedProductGradient use the same scratch memory
// of the thread, so only one of them may be alive.
inline constexpr int64_t kNormalizedRows = 120;

template <class T, class P = T>
class NormalizedProduct {
 public:
  // `shape.rows` is the number of rows of all blocks together.
  NormalizedProduct(const Norm<T>& norm, const T* w, const T* bias, const LinearShape& shape);
  void multiply(const T* x, T* y, RowStatistics<T>* statistics, int64_t rows) const;

 private:
  Norm<T> norm_;
  const T* bias_;
  LinearShape shape_;
  RightHandSide<T, P> weights_;
};

// For each block: start(), add_row() for every row, finish().
template <class T, class P = T>
class NormalizedProductGradient {
 public:
  NormalizedProductGradient(const Norm<T>& norm, const T* w, T* dw, T* dbias,
                            const LinearShape& shape);
  void start(const T* dy, int64_t rows);
  // Adds to dx, row i of the block.
  void add_row(int64_t i, const T* x, const RowStatistics<T>& statistics, T* dx);
  // Adds to dw and dbias.
  void finish();

 private:
  Norm<T> norm_;
  T *dw_, *dbias_;
  LinearShape shape_;
  RightHandSide<T, P> weights_;
  T *z_, *g_, *mean_w_;  // of a block: z = Norm(x), g = dy W; means of w's rows, 0 for rms
  const T* dy_ = nullptr;
  int64_t rows_ = 0;
};

}  // namespace geores::kernels
