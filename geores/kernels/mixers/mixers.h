// The per-token n × n mixers of the hyper-connections. A CPU has one token in each vector lane. All
// values of a token's matrix stay in registers from its logits to its entries, and back. n is one
// of the compiled sizes (sizes.h).
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

struct MixerShape {
  int64_t tokens, n;
};

// JPmHC: raw (tokens, 3, n, n) -> read (tokens, n), the column means of softmax(raw₀/τ) over rows;
// write (tokens, n), the row sums of softmax(raw₁/τ) over columns; res (tokens, n, n), the Cayley
// map of raw₂ − raw₂ᵀ by `steps` iterations, or exactly for steps < 0. Where res is null there is no
// raw₂: raw (tokens, 2, n, n).
template <class T>
struct CayleyRoutes {
  T temperature, alpha;
  int steps;
};
template <class T>
void cayley_routes_forward(const T* raw, const CayleyRoutes<T>& routes, T* res, T* read, T* write,
                           const MixerShape& shape);
template <class T>
void cayley_routes_backward(const T* raw, const CayleyRoutes<T>& routes, const T* dres,
                            const T* dread, const T* dwrite, T* draw, const MixerShape& shape);

// sHC: H = J + (U_Z U) diag(σ) (U_Z V)ᵀ (manifold/spectral_sphere.h), where U and V are the Cayley
// maps of skew matrices of size n − 1, n >= 3:
//   left, right (tokens, (n−1)(n−2)/2), the upper triangles of the skew matrices;
//   sigma (tokens, n − 1); h (tokens, n, n)
template <class T>
struct SphereArrays {
  T *left, *right, *sigma;
};
template <class T>
void spectral_sphere_forward(const SphereArrays<const T>& in, T* h, const MixerShape& shape);
template <class T>
void spectral_sphere_backward(const SphereArrays<const T>& in, const T* dh,
                              const SphereArrays<T>& gradients, const MixerShape& shape);

// sHC's mixer on a GPU, for 3 to 8 streams.
template <class T>
void spectral_sphere_forward(CudaStream stream, const SphereArrays<const T>& in, T* h,
                             const MixerShape& shape);
template <class T>
void spectral_sphere_backward(CudaStream stream, const SphereArrays<const T>& in, const T* dh,
                              const SphereArrays<T>& gradients, const MixerShape& shape);

// On a GPU, routes are made of raw + bias (a null bias means raw alone), so that the product before
// them need not add it. The backward kernel writes draw in the type of activations, as the next
// product takes it, and overwrites dbias with the sum over tokens (null without bias). Both kinds
// of routes have the same function names.
template <class T>
void routes_forward(CudaStream stream, const T* raw, const T* bias, const CayleyRoutes<T>& routes,
                    T* res, T* read, T* write, const MixerShape& shape);
template <class T, class A>
void routes_backward(CudaStream stream, const T* raw, const T* bias, const CayleyRoutes<T>& routes,
                     const T* dres, const T* dread, const T* dwrite, A* draw, T* dbias,
                     const MixerShape& shape);

// Sigmoid routes around a guarded Sinkhorn mixer: raw (tokens, 2n + n²) -> read = σ(raw), write =
// 2σ(raw), res = Sinkhorn of raw with a guard (sinkhorn.h). At most kMostGuardedIterations iterations.
inline constexpr int kMostGuardedIterations = 32;
template <class T>
struct GuardedRoutes {
  int iterations;
  T guard;
};
template <class T>
void routes_forward(CudaStream stream, const T* raw, const T* bias, const GuardedRoutes<T>& routes,
                    T* res, T* read, T* write, const MixerShape& shape);
template <class T, class A>
void routes_backward(CudaStream stream, const T* raw, const T* bias, const GuardedRoutes<T>& routes,
                     const T* dres, const T* dread, const T* dwrite, A* draw, T* dbias,
                     const MixerShape& shape);

}  // namespace geores::kernels
