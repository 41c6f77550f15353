// JPmHC's path from a token's streams to its sublayer, a block of tokens at a time, so that the
// state is read from memory once:
//   entries = Norm(x) Wᵀ + b -> res, read, write (Cayley routes) -> h = LN(Σ_j read_j x_j)
// mix_write_forward computes the part that goes past the sublayer, Σ_j res_ij x_j. The backward
// kernel here takes its gradient dout as well, so that x, dout and dx are each passed over once.
//   x, dout, dx (tokens, n·d); w (count, n·d), bias (count) and entries (tokens, count) with
//   count = route_differences(n).size(); n one of the compiled sizes (sizes.h)
#pragma once

#include <vector>

#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

// Cayley routes depend only on differences of their 3n² raw values: adding a number to all logits
// of a softmax changes nothing, and W = H̃ − H̃ᵀ. So 5n(n − 1)/2 differences raw[at] − raw[minus]
// are enough. The routes are computed from raw values that equal the differences at `at` and are
// zero elsewhere.
struct RouteDifference {
  int64_t at, minus;
};
std::vector<RouteDifference> route_differences(int64_t n);

template <class T>
struct RouteProjection {
  Norm<T> norm;  // of the state; it has no weight and bias
  const T *w, *bias;
  CayleyRoutes<T> routes;
  Norm<T> read_norm;  // of the sublayer's input
};

// All results of the forward pass; the backward pass reads all of them except h and write.
template <class T>
struct RoutedStreams {
  T* entries;                              // (tokens, count)
  RowStatistics<T>* statistics;            // (tokens), of the state
  T *res, *read, *write;                   // (tokens, n, n), (tokens, n), (tokens, n)
  T* h;                                    // (tokens, d)
  RowStatistics<T>* collected_statistics;  // (tokens), of c = Σ_j read_j x_j
};

template <class T, class P = T>
void routed_streams_forward(const T* x, const RouteProjection<T>& projection,
                            const RoutedStreams<T>& out, const StreamShape& shape);

// dx is overwritten; the other three are added to.
template <class T>
struct RoutedStreamsGradients {
  T *x, *w, *bias, *read_weight;
};

template <class T, class P = T>
void routed_streams_backward(const T* x, const RouteProjection<T>& projection,
                             const RoutedStreams<T>& out, const T* dh, const T* dwrite,
                             const T* dout, const RoutedStreamsGradients<T>& gradients,
                             const StreamShape& shape);

}  // namespace geores::kernels
