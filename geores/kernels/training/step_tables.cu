#include "geores/kernels/training/step_tables.h"

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kEach = 8, kPiece = kEach * kThreads;  // values of a thread, of a block

inline int64_t blocks_of(int64_t sequences, int64_t size) {
  return sequences * ((size + kPiece - 1) / kPiece);
}

// One piece of one sequence. Copied value by value: a sequence may start at any address.
template <class T, class A>
__device__ void take_piece(const int64_t* numbers, const Sequences<T, A>& sequences,
                           int64_t block) {
  const int64_t size = sequences.size, pieces = (size + kPiece - 1) / kPiece;
  const int64_t sequence = block / pieces, first = block % pieces * kPiece + threadIdx.x;
  const T* from = sequences.all + numbers[sequence] * size;
  A* to = sequences.taken + sequence * size;
  T held[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const auto at = first + i * kThreads;
    held[i] = at < size ? from[at] : T(0);
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const auto at = first + i * kThreads;
    if (at < size) to[at] = As<A>::from(held[i]);
  }
}

template <class T, class A>
__global__ void take(BatchTable batches, Sequences<T, A> x, Sequences<T, T> y, StepRow<T> rates,
                     int64_t blocks_of_x) {
  wait_for_previous();
  const int64_t step = *batches.step, block = blockIdx.x;
  const int64_t* numbers = batches.table + step % batches.window * batches.sequences;
  if (block == 0 && threadIdx.x < rates.size)
    rates.taken[threadIdx.x] = rates.table[step * rates.size + threadIdx.x];
  if (block < blocks_of_x)
    take_piece(numbers, x, block);
  else
    take_piece(numbers, y, block - blocks_of_x);
}

template <class T>
__global__ void end(int64_t* step, const T* loss, T* losses, const T* norm, T* norms) {
  wait_for_previous();
  losses[*step] = *loss;
  norms[*step] = *norm;
  ++*step;
}

}  // namespace

template <class T, class A>
void take_step(CudaStream stream, const BatchTable& batches, const Sequences<T, A>& x,
               const Sequences<T, T>& y, const StepRow<T>& rates) {
  const auto blocks_of_x = blocks_of(batches.sequences, x.size);
  launch(stream, {blocks_of_x + blocks_of(batches.sequences, y.size), kThreads}, take<T, A>,
         batches, x, y, rates, blocks_of_x);
  check_launch("take_step");
}

template <class T>
void end_step(CudaStream stream, int64_t* step, const T* loss, T* losses, const T* norm, T* norms) {
  launch(stream, {1, 1}, end<T>, step, loss, losses, norm, norms);
  check_launch("end_step");
}

template void take_step(CudaStream, const BatchTable&, const Sequences<float, float>&,
                        const Sequences<float, float>&, const StepRow<float>&);
template void take_step(CudaStream, const BatchTable&, const Sequences<float, BFloat16>&,
                        const Sequences<float, float>&, const StepRow<float>&);
template void take_step(CudaStream, const BatchTable&, const Sequences<double, double>&,
                        const Sequences<double, double>&, const StepRow<double>&);
template void end_step(CudaStream, int64_t*, const float*, float*, const float*, float*);
template void end_step(CudaStream, int64_t*, const double*, double*, const double*, double*);

}  // namespace geores::kernels
