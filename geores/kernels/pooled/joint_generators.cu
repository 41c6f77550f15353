// nvcc: -prec-div=false
#include "geores/kernels/pooled/joint_generators.h"

#include "geores/kernels/pooled/generators.cuh"
#include "geores/kernels/pooled/raw_hybrid.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr double kNormEps = 1e-5;  // of LN

// The logit of the gate is the last of the raw outputs.
template <int N, class T>
__device__ inline Gate<T> gate_in(const T* raw) {
  return gate_from(raw[3 * N + 1], T(0));
}

template <int N, class T>
__global__ void __launch_bounds__(kSequenceThreads, 1)
    joint_forward(Generators<const T> p, const T* norm_weight, const T* norm_bias, const T* sums,
                  JointState<T> state, T* g, T* penalty, T penalty_weight, GeneratorShape s,
                  bool staged) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const Workspace<T> w(memory, p, s, staged);
  const int64_t sequence = blockIdx.x;
  T sum = 0, squares = 0;
  for (int i = threadIdx.x; i < s.in; i += blockDim.x) sum += w.mean[i] = mean_value(sums, s, i);
  const T mean = sum_over_block(sum) / T(s.in);
  for (int i = threadIdx.x; i < s.in; i += blockDim.x) {
    w.mean[i] -= mean;
    squares += w.mean[i] * w.mean[i];
  }
  const T inverse = T(1) / sqrt(sum_over_block(squares) / T(s.in) + T(kNormEps));
  for (int i = threadIdx.x; i < s.in; i += blockDim.x) {
    const T normal = state.normal[sequence * s.in + i] = w.mean[i] * inverse;
    w.mean[i] = state.input[sequence * s.in + i] = normal * norm_weight[i] + norm_bias[i];
  }
  if (threadIdx.x == 0) state.inverse[sequence] = inverse;
  run_layers(GeneratorState<T>{state.input, state.hidden, state.raw, nullptr, nullptr}, w);
  if (threadIdx.x > 0) return;
  const auto gamma = gate_in<N>(w.raw).gamma;
  penalty[sequence] = penalty_weight * manifold::gate_penalty(gamma);
  const auto matrix = manifold::hybrid_operator(RawHybrid<N, T>(w.raw, gamma).p);
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) g[(sequence * N + i) * N + j] = matrix(i, j);
}

template <int N, class T>
__global__ void __launch_bounds__(kSequenceThreads, 1)
    joint_backward(Generators<const T> p, const T* norm_weight, JointState<const T> state,
                   JointBackward<T> d, T* dnorm_weight, T* dnorm_bias, GeneratorShape s,
                   bool staged) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  __shared__ T dg[N * N];
  const Workspace<T> w(memory, p, s, staged);
  const int64_t sequence = blockIdx.x;
  if (threadIdx.x < N * N) {
    T sum = 0;
#pragma unroll 8
    for (int part = 0; part < d.parts; ++part)
      sum += d.dg[(sequence * d.parts + part) * (N * N) + threadIdx.x];
    dg[threadIdx.x] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const T* raw = state.raw + sequence * (3 * N + 2);
    w.raw[3 * N + 1] =
        raw_hybrid_backward<N>(
            raw, gate_in<N>(raw), dg,
            d.dpenalty ? d.dpenalty[sequence * d.dpenalty_stride] * d.penalty_weight : T(0), w.raw)
            .logit;
  }
  run_layers_back(GeneratorState<const T>{state.input, state.hidden, state.raw, nullptr, nullptr},
                  w, GeneratorScratch<T>{d.dhidden, d.draw, nullptr}, T(0));
  // Through LN: the gradient of its result is in the workspace.
  T sum = 0, sum_z = 0;
  for (int i = threadIdx.x; i < s.in; i += blockDim.x) {
    const T da = w.mean[i], z = state.normal[sequence * s.in + i];
    atomicAdd(dnorm_weight + i, da * z);
    atomicAdd(dnorm_bias + i, da);
    const T dz = w.mean[i] = da * norm_weight[i];
    sum += dz;
    sum_z += dz * z;
  }
  sum = sum_over_block(sum) / T(s.in);
  sum_z = sum_over_block(sum_z) / T(s.in);
  const T inverse = state.inverse[sequence];
  for (int i = threadIdx.x; i < s.in; i += blockDim.x)
    d.dmean[sequence * s.in + i] =
        inverse * (w.mean[i] - sum - state.normal[sequence * s.in + i] * sum_z);
}

template <class T>
Generators<T> one_net(const PerceptronArrays<T>& net) {
  return {.nets = {net}, .gate = nullptr, .gate_bias = nullptr};
}

}  // namespace

template <class T>
void joint_generators_forward(CudaStream stream, const JointGenerators<const T>& parameters,
                              const T* sums, const JointState<T>& state, T* g, T* penalty,
                              T penalty_weight, int n, const GeneratorShape& s) {
  with_operator_size(n, [&](auto size) {
    launch_by_sequence<T>(stream, joint_forward<size.value, T>, s, one_net(parameters.net),
                          parameters.norm_weight, parameters.norm_bias, sums, state, g, penalty,
                          penalty_weight);
  });
  check_launch("joint_generators_forward");
}

template <class T>
void joint_generators_backward(CudaStream stream, const JointGenerators<const T>& parameters,
                               const JointState<const T>& state, const JointBackward<T>& p,
                               const JointGenerators<T>& gradients, int n,
                               const GeneratorShape& s) {
  with_operator_size(n, [&](auto size) {
    launch_by_sequence<T>(stream, joint_backward<size.value, T>, s, one_net(parameters.net),
                          parameters.norm_weight, state, p, gradients.norm_weight,
                          gradients.norm_bias);
  });
  launch_parameter_gradients<T>(stream, {state.input, state.hidden, state.raw, nullptr, nullptr},
                                {p.dhidden, p.draw, nullptr}, one_net(gradients.net), s);
  check_launch("joint_generators_backward");
}

#define GEORES_INSTANTIATE(T)                                                                   \
  template void joint_generators_forward(CudaStream, const JointGenerators<const T>&, const T*, \
                                         const JointState<T>&, T*, T*, T, int,                  \
                                         const GeneratorShape&);                                \
  template void joint_generators_backward(CudaStream, const JointGenerators<const T>&,          \
                                          const JointState<const T>&, const JointBackward<T>&,  \
                                          const JointGenerators<T>&, int, const GeneratorShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
