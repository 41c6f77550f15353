// nvcc: -prec-div=false
#include "geores/kernels/pooled/generators.h"

#include "geores/kernels/pooled/generators.cuh"
#include "geores/kernels/pooled/raw_hybrid.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <class T>
// By one warp; the result is in all lanes.
__device__ inline T dot(const T* a, const T* b, int size) {
  T sum = 0;
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < size; i += 32) sum += a[i] * b[i];
  return group_sum<32>(sum);
}

template <int N, class T>
__global__ void __launch_bounds__(kSequenceThreads, 1)
    hybrid_forward(Generators<const T> p, const T* sums, const T* entropies,
                   GeneratorState<T> state, T* g, T* gamma, T* penalty, T penalty_weight,
                   GeneratorShape s, bool staged) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const Workspace<T> w(memory, p, s, staged);
  run_perceptrons(sums, state, w);
  if (threadIdx.x >= 32) return;
  const int64_t sequence = blockIdx.x;
  const T logit = dot(p.gate, w.mean, s.in) + p.gate_bias[0];
  if (threadIdx.x > 0) return;
  T entropy = 0;
  if (entropies) {
    for (int part = 0; part < kSummaryParts; ++part)
      entropy += entropies[sequence * kSummaryParts + part];
    entropy /= T(s.length);
  }
  const auto gate = gate_from(logit, entropy);
  state.logit[sequence] = logit;
  state.entropy[sequence] = entropy;
  gamma[sequence] = gate.gamma;
  penalty[sequence] = penalty_weight * manifold::gate_penalty(gate.gamma);
  const auto matrix = manifold::hybrid_operator(RawHybrid<N, T>(w.raw, gate.gamma).p);
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) g[(sequence * N + i) * N + j] = matrix(i, j);
}

template <int N, class T>
__global__ void __launch_bounds__(kSequenceThreads, 1)
    hybrid_backward(Generators<const T> p, GeneratorState<const T> state, const T* gamma,
                    const T* dg, const T* dpenalty, int64_t dpenalty_stride, T penalty_weight,
                    GeneratorScratch<T> scratch, T* dmean, T* dentropy, GeneratorShape s,
                    bool staged) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  __shared__ T dlogit_shared;
  const Workspace<T> w(memory, p, s, staged);
  const int64_t sequence = blockIdx.x;
  if (threadIdx.x == 0) {
    const auto d = raw_hybrid_backward<N>(
        state.raw + sequence * s.all_outputs(),
        Gate<T>{state.logit[sequence], state.entropy[sequence], gamma[sequence]},
        dg + sequence * (N * N),
        dpenalty ? dpenalty[sequence * dpenalty_stride] * penalty_weight : T(0), w.raw);
    dlogit_shared = scratch.logit[sequence] = d.logit;
    if (dentropy) dentropy[sequence] = d.entropy;
  }
  run_perceptrons_back(state, w, scratch, dlogit_shared, dmean);
}

template <class T>
__global__ void __launch_bounds__(kSequenceThreads, 1)
    erase_forward(Generators<const T> p, const T* sums, GeneratorState<T> state,
                  EraseArrays<T> erase, GeneratorShape s, bool staged) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const Workspace<T> w(memory, p, s, staged);
  run_perceptrons(sums, state, w);
  const int64_t sequence = blockIdx.x;
  const int width = s.outputs[0];
  T squares = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) squares += w.raw[i] * w.raw[i];
  const T norm = fmax(sqrt(sum_over_block(squares)), T(kSmallestNorm));
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    erase.k[sequence * width + i] = w.raw[i] / norm;
  if (threadIdx.x == 0) erase.beta[sequence] = T(2) * sigmoid(w.raw[width]);
}

template <class T>
__global__ void __launch_bounds__(kSequenceThreads, 1)
    erase_backward(Generators<const T> p, GeneratorState<const T> state, EraseArrays<const T> erase,
                   EraseArrays<const T> derase, GeneratorScratch<T> scratch, T* dmean,
                   GeneratorShape s, bool staged) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const Workspace<T> w(memory, p, s, staged);
  const int64_t sequence = blockIdx.x;
  const int width = s.outputs[0];
  const T* raw = state.raw + sequence * s.all_outputs();
  const T *k = erase.k + sequence * width, *dk = derase.k + sequence * width;
  T squares = 0, along = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    squares += raw[i] * raw[i];
    along += k[i] * dk[i];
  }
  const T length = sqrt(sum_over_block(squares));
  const bool tiny = !(length > T(kSmallestNorm));
  const T norm = tiny ? T(kSmallestNorm) : length;
  along = sum_over_block(along);
  if (tiny) along = T(0);
  for (int i = threadIdx.x; i < width; i += blockDim.x) w.raw[i] = (dk[i] - along * k[i]) / norm;
  if (threadIdx.x == 0) {
    const T beta = erase.beta[sequence];
    w.raw[width] = derase.beta[sequence] * beta * (T(1) - T(0.5) * beta);
  }
  run_perceptrons_back(state, w, scratch, T(0), dmean);
}

}  // namespace

template <class T>
void hybrid_generators_forward(CudaStream stream, const Generators<const T>& parameters,
                               const T* sums, const T* entropies, const GeneratorState<T>& state,
                               T* g, T* gamma, T* penalty, T penalty_weight, int n,
                               const GeneratorShape& s) {
  with_operator_size(n, [&](auto size) {
    launch_by_sequence<T>(stream, hybrid_forward<size.value, T>, s, parameters, sums, entropies,
                          state, g, gamma, penalty, penalty_weight);
  });
  check_launch("hybrid_generators_forward");
}

template <class T>
void hybrid_generators_backward(CudaStream stream, const Generators<const T>& parameters,
                                const GeneratorState<const T>& state, const T* gamma, const T* dg,
                                const T* dpenalty, int64_t dpenalty_stride, T penalty_weight,
                                const GeneratorScratch<T>& scratch, T* dmean, T* dentropy,
                                const Generators<T>& gradients, int n, const GeneratorShape& s) {
  with_operator_size(n, [&](auto size) {
    launch_by_sequence<T>(stream, hybrid_backward<size.value, T>, s, parameters, state, gamma, dg,
                          dpenalty, dpenalty_stride, penalty_weight, scratch, dmean, dentropy);
  });
  launch_parameter_gradients(stream, state, scratch, gradients, s);
  check_launch("hybrid_generators_backward");
}

template <class T>
void erase_generators_forward(CudaStream stream, const Generators<const T>& parameters,
                              const T* sums, const GeneratorState<T>& state,
                              const EraseArrays<T>& erase, const GeneratorShape& s) {
  launch_by_sequence<T>(stream, erase_forward<T>, s, parameters, sums, state, erase);
  check_launch("erase_generators_forward");
}

template <class T>
void erase_generators_backward(CudaStream stream, const Generators<const T>& parameters,
                               const GeneratorState<const T>& state,
                               const EraseArrays<const T>& erase,
                               const EraseArrays<const T>& derase,
                               const GeneratorScratch<T>& scratch, T* dmean,
                               const Generators<T>& gradients, const GeneratorShape& s) {
  launch_by_sequence<T>(stream, erase_backward<T>, s, parameters, state, erase, derase, scratch,
                        dmean);
  launch_parameter_gradients(stream, state, scratch, gradients, s);
  check_launch("erase_generators_backward");
}

#define GEORES_INSTANTIATE(T)                                                                     \
  template void hybrid_generators_forward(CudaStream, const Generators<const T>&, const T*,       \
                                          const T*, const GeneratorState<T>&, T*, T*, T*, T, int, \
                                          const GeneratorShape&);                                 \
  template void hybrid_generators_backward(CudaStream, const Generators<const T>&,                \
                                           const GeneratorState<const T>&, const T*, const T*,    \
                                           const T*, int64_t, T, const GeneratorScratch<T>&, T*,  \
                                           T*, const Generators<T>&, int, const GeneratorShape&); \
  template void erase_generators_forward(CudaStream, const Generators<const T>&, const T*,        \
                                         const GeneratorState<T>&, const EraseArrays<T>&,         \
                                         const GeneratorShape&);                                  \
  template void erase_generators_backward(                                                        \
      CudaStream, const Generators<const T>&, const GeneratorState<const T>&,                     \
      const EraseArrays<const T>&, const EraseArrays<const T>&, const GeneratorScratch<T>&, T*,   \
      const Generators<T>&, const GeneratorShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
