// Sinkhorn-Knopp on a matrix for each token (manifold/sinkhorn.h): any logits, guard, order and
// gradient. n is one of the compiled sizes (sizes.h), on a GPU 2 to 8.
#pragma once

#include "geores/kernels/mixers/mixers.h"
#include "geores/manifold/sinkhorn.h"

namespace geores::kernels {

struct Sinkhorn {
  manifold::SinkhornOptions options;
  bool unrolled;   // whether the gradient is that of the iterations, or the implicit one
  bool rows_last;  // whether rows are divided last, or columns
};

// p (tokens, n, n)
template <class T>
void sinkhorn_forward(const T* logits, const Sinkhorn& spec, T* p, const MixerShape& shape);

// The unrolled gradient reads the logits, the implicit one p and, with a bound, the logits.
template <class T>
void sinkhorn_backward(const T* logits, const Sinkhorn& spec, const T* p, const T* dp, T* dlogits,
                       const MixerShape& shape);

// On a GPU, one thread for each token, and four for the iterations on four streams.
template <class T>
void sinkhorn_forward(CudaStream stream, const T* logits, const Sinkhorn& spec, T* p,
                      const MixerShape& shape);
template <class T>
void sinkhorn_backward(CudaStream stream, const T* logits, const Sinkhorn& spec, const T* p,
                       const T* dp, T* dlogits, const MixerShape& shape);

}  // namespace geores::kernels
