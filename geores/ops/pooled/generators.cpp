#include "geores/ops/pooled/generators.h"

#include <algorithm>
#include <string>

#include "geores/kernels/pooled/erase.h"
#include "geores/kernels/pooled/token_generators.h"
#include "geores/kernels/sizes.h"
#include "geores/kernels/streams/wide_mix.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/pooled/generator_parts.h"
#include "geores/ops/pooled/summary.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace fused {

bool generators_run_fused(const Tensor& x, Pool pool, int64_t streams, int64_t most_values,
                          const std::vector<PerceptronWeights>& perceptrons) {
  static const auto numbers = numbers_that(kernels::is_device_stream_count) + " streams",
                    narrow = "at most " + std::to_string(kernels::kDeviceStreamWidth) +
                             " values for each stream (" +
                             std::to_string(kAnyStreams * kernels::kDeviceStreamWidth) +
                             " without streams)",
                    wide = "at most " + std::to_string(kernels::kMostWideValues) + " values",
                    count = "1 to " + std::to_string(kernels::kMostPerceptrons) + " perceptrons",
                    sequence_units = "at most " + std::to_string(kernels::kMostGeneratorUnits) +
                                     " inputs, hidden units and outputs",
                    token_units = "hidden layers of at most " +
                                  std::to_string(kernels::most_token_hidden(sizeof(float))) +
                                  " units, half as many in float64";
  const bool fits = x.dim() == 3 && x.numel() > 0;
  const auto width = fits ? x.size(2) : 0;
  bool same_hidden = true;
  int64_t units = 0, others = width;
  const auto hidden = perceptrons.empty() ? 0 : perceptrons[0].hidden.size(0);
  for (const auto& perceptron : perceptrons) {
    same_hidden = same_hidden && perceptron.hidden.size(0) == hidden;
    units += perceptron.hidden_bias.numel();
    others += perceptron.output_bias.numel();
  }
  const bool sequence = pool == Pool::sequence;
  return KernelChoice(sequence ? "sequence_generators" : "token_generators", x)
      .need(on_gpu(x), "a GPU")
      .need(fits, "a state (B, T, D) with at least one value")
      .need(kernels::is_device_stream_count(streams), numbers.c_str())
      .need(width % streams == 0, "a width that the number of streams divides")
      .need(width <= most_values, (most_values == kernels::kMostWideValues ? wide : narrow).c_str())
      .need(!perceptrons.empty() && perceptrons.size() <= kernels::kMostPerceptrons, count.c_str())
      .need(same_hidden, "perceptrons of the same hidden width")
      .need(!sequence || units + others <= kernels::kMostGeneratorUnits, sequence_units.c_str())
      .need(sequence || hidden <= kernels::most_token_hidden(x.element_size()), token_units.c_str())
      .runs();
}

}  // namespace fused

namespace {

using namespace fused;

// The forward pass's intermediate values for the backward pass.
struct GeneratorTensors {
  Tensor mean, hidden, raw, logit, entropy;  // hidden units and raw outputs before activations

  static GeneratorTensors buffers(const kernels::GeneratorShape& s, const Tensor& like) {
    const auto buffer = [&](int64_t width) {
      return torch::empty({s.sequences, width}, like.options());
    };
    return {.mean = buffer(s.in),
            .hidden = buffer(s.units()),
            .raw = buffer(s.all_outputs()),
            .logit = buffer(1),
            .entropy = buffer(1)};
  }

  template <class Self, class F>
  static void tensors(Self& s, F&& f) {
    f(s.mean), f(s.hidden), f(s.raw), f(s.logit), f(s.entropy);
  }

  template <class T>
  kernels::GeneratorState<T> in_kernels() const {
    using Value = std::remove_const_t<T>;
    return {values<Value>(mean), values<Value>(hidden), values<Value>(raw), values<Value>(logit),
            values<Value>(entropy)};
  }
};

// Buffers for their gradients.
struct GeneratorGradients {
  Tensor hidden, raw, logit;

  explicit GeneratorGradients(const GeneratorTensors& state)
      : hidden(torch::empty_like(state.hidden)),
        raw(torch::empty_like(state.raw)),
        logit(torch::empty_like(state.logit)) {}

  template <class T>
  kernels::GeneratorScratch<T> in_kernels() const {
    return {values<T>(hidden), values<T>(raw), values<T>(logit)};
  }
};

tensor_list like_all(at::TensorList tensors) {
  tensor_list result;
  for (const auto& tensor : tensors) result.push_back(torch::empty_like(tensor));
  return result;
}

// Outputs: g, penalty (B), x with its branch.
class FusedSequenceHybrid : public torch::autograd::Function<FusedSequenceHybrid> {
  struct Kept {
    Tensor x, gamma;
    GeneratorTensors state;
    std::vector<Tensor> parameters;
    torch::ScalarType branch;
    int64_t n;
    bool entropy;
    double penalty_share;  // of one sequence

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.gamma), f(s.parameters);
      GeneratorTensors::tensors(s.state, f);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, at::TensorList parameters, int64_t n,
                             bool entropy, double penalty_weight) {
    const auto branch = contiguous(branches);
    const auto [x, sums, entropies] =
        summarize(input.contiguous(), branch, n, Pool::sequence, entropy);
    const auto shape = generator_shape(x, parameters);
    const auto state = GeneratorTensors::buffers(shape, x);
    const auto batch = x.size(0);
    const auto g = torch::empty({batch, 1, n, n}, x.options());
    const auto gamma = torch::empty({batch, 1, 1}, x.options());
    const auto penalty = torch::empty({batch}, x.options());
    const auto share = penalty_weight / static_cast<double>(batch);
    on_gpu(x, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::hybrid_generators_forward(cuda_stream, generators_in<const T>(parameters),
                                         values<T>(sums), values<T>(entropies),
                                         state.in_kernels<T>(), values<T>(g), values<T>(gamma),
                                         values<T>(penalty), T(share), static_cast<int>(n), shape);
    });
    save(context, Kept{.x = x,
                       .gamma = gamma,
                       .state = state,
                       .parameters = parameters.vec(),
                       .branch = branch.scalar_type(),
                       .n = n,
                       .entropy = entropy,
                       .penalty_share = share});
    context->set_materialize_grads(
        false);  // avoids zeros of the state's size for an unused skip output
    return {g, penalty, branch.defined() ? x : input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dg = gradient_or_zeros(gradients[0], {s.x.size(0), 1, s.n, s.n}, s.x),
               skip = contiguous(gradients[2]);
    const auto& dpenalty = gradients[1];  // often one value, expanded
    const auto dparameters = like_all(s.parameters);
    const GeneratorGradients dstate(s.state);
    const auto dmean = torch::empty_like(s.state.mean);
    const auto dentropy = s.entropy ? torch::empty_like(s.state.entropy) : Tensor();
    on_gpu(s.x, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::hybrid_generators_backward(
          cuda_stream, generators_in<const T>(s.parameters), s.state.in_kernels<const T>(),
          values<T>(s.gamma), values<T>(dg), values<T>(dpenalty),
          dpenalty.defined() ? dpenalty.stride(0) : 0, T(s.penalty_share), dstate.in_kernels<T>(),
          values<T>(dmean), values<T>(dentropy), generators_in<T>(dparameters),
          static_cast<int>(s.n), generator_shape(s.x, s.parameters));
    });
    const auto [dx, dbranch] =
        summarize_backward(s.x, s.branch, s.n, Pool::sequence, dmean, dentropy, skip);
    tensor_list result = {dx, dbranch};
    result.insert(result.end(), dparameters.begin(), dparameters.end());
    result.resize(result.size() + 3);
    return result;
  }
};

// Outputs: k, beta, x with its branch.
class FusedSequenceErase : public torch::autograd::Function<FusedSequenceErase> {
  struct Kept {
    Tensor x, k, beta;
    GeneratorTensors state;
    std::vector<Tensor> parameters;
    torch::ScalarType branch;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.k), f(s.beta), f(s.parameters);
      GeneratorTensors::tensors(s.state, f);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, at::TensorList parameters) {
    const auto branch = contiguous(branches);
    const auto [x, sums, none] =
        summarize(input.contiguous(), branch, kAnyStreams, Pool::sequence, false);
    const auto shape = generator_shape(x, parameters);
    const auto state = GeneratorTensors::buffers(shape, x);
    const auto k = torch::empty({x.size(0), 1, x.size(2)}, x.options());
    const auto beta = torch::empty({x.size(0), 1, 1}, x.options());
    on_gpu(x, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::erase_generators_forward(cuda_stream, generators_in<const T>(parameters),
                                        values<T>(sums), state.in_kernels<T>(),
                                        {values<T>(k), values<T>(beta)}, shape);
    });
    save(context, Kept{.x = x,
                       .k = k,
                       .beta = beta,
                       .state = state,
                       .parameters = parameters.vec(),
                       .branch = branch.scalar_type()});
    return {k, beta, branch.defined() ? x : input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dk = gradients[0].contiguous(), dbeta = gradients[1].contiguous(),
               skip = contiguous(gradients[2]);
    const auto dparameters = like_all(s.parameters);
    const GeneratorGradients dstate(s.state);
    const auto dmean = torch::empty_like(s.state.mean);
    on_gpu(s.x, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::erase_generators_backward<T>(
          cuda_stream, generators_in<const T>(s.parameters), s.state.in_kernels<const T>(),
          {values<T>(s.k), values<T>(s.beta)}, {values<T>(dk), values<T>(dbeta)},
          dstate.in_kernels<T>(), values<T>(dmean), generators_in<T>(dparameters),
          generator_shape(s.x, s.parameters));
    });
    const auto [dx, dbranch] =
        summarize_backward(s.x, s.branch, kAnyStreams, Pool::sequence, dmean, {}, skip);
    tensor_list result = {dx, dbranch};
    result.insert(result.end(), dparameters.begin(), dparameters.end());
    return result;
  }
};

// Outputs: g and LN(g).
class FusedEraseNorm : public torch::autograd::Function<FusedEraseNorm> {
  struct Kept {
    Tensor k, beta, x, weight, statistics;
    Tensor weight_slot;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.k), f(s.beta), f(s.x), f(s.weight), f(s.statistics);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& directions,
                             const Tensor& strengths, const Tensor& input, const Tensor& weights) {
    const auto k = directions.contiguous(), beta = strengths.contiguous(), x = input.contiguous(),
               weight = weights.contiguous();
    const auto g = torch::empty_like(x), h = for_product_of(x, x.sizes());
    const auto statistics = torch::empty({x.size(0), x.size(1), 2}, x.options());
    on_gpu(x, h, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::erase_norm_forward<T>(cuda_stream, {values<T>(k), values<T>(beta)}, values<T>(x),
                                     {.weight = values<T>(weight)}, values<T>(g), values<A>(h),
                                     statistics_in<T>(statistics), x.size(0), x.size(0) * x.size(1),
                                     x.size(2));
    });
    save(context, Kept{.k = k,
                       .beta = beta,
                       .x = x,
                       .weight = weight,
                       .statistics = statistics,
                       .weight_slot = gradient_slot(weight)});
    return {g, h};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dg = contiguous(gradients[0]), dh = gradients[1].contiguous();
    const auto dk = torch::empty_like(s.k), dbeta = torch::empty_like(s.beta),
               dx = torch::empty_like(s.x);
    const auto dweight = parameter_sum(s.weight, s.weight_slot);
    on_gpu(s.x, dh, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::erase_norm_backward<T>(
          cuda_stream, {values<T>(s.k), values<T>(s.beta)}, values<T>(s.x),
          {.weight = values<T>(s.weight)}, statistics_in<T>(s.statistics), values<T>(dg),
          values<A>(dh), values<T>(dx), {values<T>(dk), values<T>(dbeta)}, values<T>(dweight.sum),
          s.x.size(0), s.x.size(0) * s.x.size(1), s.x.size(2));
    });
    return {dk, dbeta, dx, dweight.gradient};
  }
};

Hybrid sequence_hybrid(const State& state, int64_t streams,
                       const std::vector<PerceptronWeights>& u_v_beta_k, const HybridGate& gate) {
  auto parameters = parameters_of(u_v_beta_k);
  parameters.insert(parameters.end(), {gate.weight, gate.bias});
  const auto [x, branch] = for_kernels(state);
  const auto outputs = FusedSequenceHybrid::apply(x, maybe(branch), at::TensorList(parameters),
                                                  streams, gate.entropy, gate.penalty_weight);
  return {.g = outputs[0],
          .penalty = gate.penalty_weight > 0 ? outputs[1] : Tensor(),
          .skip = outputs[2]};
}

}  // namespace

std::optional<Hybrid> fused_hybrid(const State& state, Pool pool, int64_t streams,
                                   const std::vector<PerceptronWeights>& u_v_beta_k,
                                   const HybridGate& gate) {
  // Wide streams have no kernel for the summary of a whole sequence.
  const auto most = pool == Pool::sequence ? streams * kernels::kDeviceStreamWidth
                                           : int64_t{kernels::kMostWideValues};
  if (!generators_run_fused(state.x, pool, streams, most, u_v_beta_k)) return std::nullopt;
  return pool == Pool::sequence ? sequence_hybrid(state, streams, u_v_beta_k, gate)
                                : token_hybrid(state, pool, streams, u_v_beta_k, gate);
}

std::optional<SequenceErase> fused_sequence_erase(const State& state,
                                                  const std::vector<PerceptronWeights>& k_beta) {
  if (!generators_run_fused(state.x, Pool::sequence, kAnyStreams, kernels::kDeviceRow, k_beta))
    return std::nullopt;
  const auto parameters = parameters_of(k_beta);
  const auto [x, branch] = for_kernels(state);
  const auto outputs = FusedSequenceErase::apply(x, maybe(branch), at::TensorList(parameters));
  return SequenceErase{.k = outputs[0], .beta = outputs[1], .skip = outputs[2]};
}

NormAndSkip erase_and_norm(const Tensor& k, const Tensor& beta, const Tensor& x,
                           const Tensor& weight) {
  static const auto row = "rows of at most " + std::to_string(kernels::kDeviceRow) + " values";
  if (KernelChoice("erase_and_norm", x)
          .need(on_gpu(x), "a GPU")
          .need(k.size(1) == 1, "one direction for a sequence")
          .need(x.size(2) <= kernels::kDeviceRow, row.c_str())
          .runs()) {
    const auto outputs = FusedEraseNorm::apply(k, beta, x, weight);
    return {.normalized = outputs[1], .skip = outputs[0]};
  }
  const auto g = x - beta * k * (x * k).sum(-1, /*keepdim=*/true);
  return {.normalized = layer_norm(g, weight), .skip = g};
}

}  // namespace geores
