// Batches of operators that are orthogonal for all values of their generators (manifold/isometry.h).
// Computed in float64 whatever T is, and rounded once: orthogonal to the rounding of their entries,
// however many factors they have.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"
#include "geores/manifold/isometry.h"

namespace geores::kernels {

struct IsometryShape {
  manifold::IsometryFactor factor;
  int64_t n;      // one of sizes.h, on a GPU one of is_device_mixer_size; even for unitary
  int64_t count;  // factors in a row
};

// raw (operators, count · generators of a factor) -> g (operators, n, n)
template <class T>
void isometries_forward(const IsometryShape& shape, const T* raw, T* g, int64_t operators);
template <class T>
void isometries_forward(CudaStream stream, const IsometryShape& shape, const T* raw, T* g,
                        int64_t operators);

// Overwrites draw.
template <class T>
void isometries_backward(const IsometryShape& shape, const T* raw, const T* dg, T* draw,
                         int64_t operators);
template <class T>
void isometries_backward(CudaStream stream, const IsometryShape& shape, const T* raw, const T* dg,
                         T* draw, int64_t operators);

// One operator, as both machines compute it.
template <int N, class T>
GEORES_HOST_DEVICE inline void isometry_at(const IsometryShape& shape, const T* raw, T* g) {
  const auto matrix =
      manifold::isometry<double, N>(shape.factor, raw, static_cast<int>(shape.count));
  for (int i = 0; i < N * N; ++i) g[i] = static_cast<T>(matrix.at[i / N][i % N]);
}

template <int N, class T>
GEORES_HOST_DEVICE inline void isometry_backward_at(const IsometryShape& shape, const T* raw,
                                                    const T* dg, T* draw) {
  manifold::Matrix<double, N> cotangent{};
  for (int i = 0; i < N * N; ++i) cotangent.at[i / N][i % N] = dg[i];
  manifold::isometry_backward(shape.factor, raw, static_cast<int>(shape.count), cotangent, draw);
}

}  // namespace geores::kernels
