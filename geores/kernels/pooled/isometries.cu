#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/pooled/isometries.h"
#include "geores/kernels/pooled/operator_launch.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <int N, class T>
__global__ void forward_isometries(IsometryShape shape, const T* raw, T* g, int64_t operators) {
  wait_for_previous();
  const auto o = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (o >= operators) return;
  const auto numbers = shape.count * manifold::generators_of(shape.factor, N);
  isometry_at<N>(shape, raw + o * numbers, g + o * N * N);
}

template <int N, class T>
__global__ void backward_isometries(IsometryShape shape, const T* raw, const T* dg, T* draw,
                                    int64_t operators) {
  wait_for_previous();
  const auto o = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (o >= operators) return;
  const auto numbers = shape.count * manifold::generators_of(shape.factor, N);
  isometry_backward_at<N>(shape, raw + o * numbers, dg + o * N * N, draw + o * numbers);
}

}  // namespace

template <class T>
void isometries_forward(CudaStream stream, const IsometryShape& shape, const T* raw, T* g,
                        int64_t operators) {
  with_operators(operators, shape.n, [&](auto size, unsigned blocks) {
    launch(stream, {blocks, kOperatorsPerBlock}, forward_isometries<size.value, T>, shape, raw, g,
           operators);
  });
  check_launch("isometries_forward");
}

template <class T>
void isometries_backward(CudaStream stream, const IsometryShape& shape, const T* raw, const T* dg,
                         T* draw, int64_t operators) {
  with_operators(operators, shape.n, [&](auto size, unsigned blocks) {
    launch(stream, {blocks, kOperatorsPerBlock}, backward_isometries<size.value, T>, shape, raw, dg,
           draw, operators);
  });
  check_launch("isometries_backward");
}

#define GEORES_INSTANTIATE(T)                                                                 \
  template void isometries_forward(CudaStream, const IsometryShape&, const T*, T*, int64_t);  \
  template void isometries_backward(CudaStream, const IsometryShape&, const T*, const T*, T*, \
                                    int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
