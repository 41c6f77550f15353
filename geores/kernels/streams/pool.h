// Running means over a sequence, y_t = (x_0 + … + x_t)/(t + 1), and their gradient,
//   dx_t = Σ_{s ≥ t} dy_s/(s + 1)
//   x, y (batch, length, width)
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

struct PoolShape {
  int64_t batch, length, width;
};

template <class T>
void running_mean_forward(const T* x, T* y, const PoolShape& shape);
template <class T>
void running_mean_backward(const T* dy, T* dx, const PoolShape& shape);

// The mean over the whole sequence: y (batch, width).
template <class T>
void mean_forward(const T* x, T* y, const PoolShape& shape);

// Running means on a GPU.
template <class T>
void running_mean_forward(CudaStream stream, const T* x, T* y, const PoolShape& shape);
template <class T>
void running_mean_backward(CudaStream stream, const T* dy, T* dx, const PoolShape& shape);

}  // namespace geores::kernels
