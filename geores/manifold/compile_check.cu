// CUDA device code: see compile_check.inc. There is one kernel for each scalar and size, which
// keeps each kernel small.
#include "geores/manifold/compile_check.inc"

template <class T, int N>
__global__ void exercise_on_device(T* data) {
  geores::manifold::exercise<T, N>(data);
}

template <class T>
void launch_all(T* data) {
  exercise_on_device<T, 2><<<1, 1>>>(data);
  exercise_on_device<T, 3><<<1, 1>>>(data);
  exercise_on_device<T, 4><<<1, 1>>>(data);
  exercise_on_device<T, 8><<<1, 1>>>(data);
}

void geores_exercise_on_device(float* single, double* twice) {
  launch_all(single);
  launch_all(twice);
}
