// The routes of hyper-connections from raw values (mHC, arXiv:2512.24880, Eq. 8): the sublayer reads a
// stream with weight σ(z), and its output is written there with weight 2σ(z), which is 1 for z = 0.
#pragma once

#include "geores/manifold/algebra/scalar.h"

namespace geores::manifold {

template <class T>
GEORES_HOST_DEVICE T sigmoid(T z) {
  return T(1) / (T(1) + exponential(-z));
}

template <class T>
GEORES_HOST_DEVICE T read_route(T z) {
  return sigmoid(z);
}

template <class T>
GEORES_HOST_DEVICE T write_route(T z) {
  return T(2) * sigmoid(z);
}

}  // namespace geores::manifold
