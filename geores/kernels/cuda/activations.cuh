// The activations that turn the raw outputs of the generators into generators of an operator.
#pragma once

namespace geores::kernels::device {

// The thresholds of torch::softplus and torch::nn::functional::normalize.
constexpr double kLinearFrom = 20, kSmallestNorm = 1e-12;

template <class T>
__device__ inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

template <class T>
__device__ inline T softplus(T x) {
  return x > T(kLinearFrom) ? x : log1p(exp(x));
}

template <class T>
__device__ inline T softplus_slope(T x) {
  return x > T(kLinearFrom) ? T(1) : sigmoid(x);
}

}  // namespace geores::kernels::device
