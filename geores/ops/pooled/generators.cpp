#include "geores/ops/pooled/generators.h"

#include "geores/kernels/pooled/erase.h"
#include "geores/kernels/pooled/summary.h"
#include "geores/kernels/pooled/token_generators.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/pooled/generator_parts.h"

namespace geores {
namespace {

using namespace fused;

// What a forward pass keeps: mean, hidden units, raw outputs, logit, entropy.
tensor_list state_for(const kernels::GeneratorShape& s, const Tensor& like) {
  const auto room = [&](int64_t width) {
    return torch::empty({s.sequences, width}, like.options());
  };
  return {room(s.in), room(s.units()), room(s.all_outputs()), room(1), room(1)};
}

template <class T>
kernels::GeneratorState<T> state_in(at::TensorList state) {
  using Value = std::remove_const_t<T>;
  return {values<Value>(state[0]), values<Value>(state[1]), values<Value>(state[2]),
          values<Value>(state[3]), values<Value>(state[4])};
}

// Of x, the input and its branch together.
struct Summary {
  Tensor x, sums, entropies;
};

Summary summarize(const Tensor& input, const Tensor& branch, int64_t n, bool entropy) {
  const auto parts = int64_t{kernels::kSummaryParts}, batch = input.size(0);
  const Summary s{.x = branch.defined() ? torch::empty_like(input) : input,
                  .sums = torch::empty({batch, parts, input.size(2)}, input.options()),
                  .entropies = entropy ? torch::empty({batch, parts}, input.options()) : Tensor()};
  on_gpu(input, branch, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
    kernels::summary_forward(stream, values<T>(input), values<A>(branch), values<T>(s.x),
                             values<T>(s.sums), values<T>(s.entropies), batch,
                             summary_shape(input, n));
  });
  return s;
}

// Gradients of the input and of its branch, which is of this type.
std::pair<Tensor, Tensor> summarize_backward(const Tensor& x, torch::ScalarType branch, int64_t n,
                                             const Tensor& dmean, const Tensor& dentropy,
                                             const Tensor& skip) {
  const auto dx = torch::empty_like(x);
  const auto dbranch =
      branch == torch::ScalarType::Undefined ? Tensor() : torch::empty_like(x, branch);
  on_gpu(x, dbranch, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
    kernels::summary_backward(stream, values<T>(x), values<T>(dmean), values<T>(dentropy),
                              values<T>(skip), values<T>(dx), values<A>(dbranch), x.size(0),
                              summary_shape(x, n));
  });
  return {dx, dbranch};
}

tensor_list like_all(at::TensorList tensors) {
  tensor_list result;
  for (const auto& tensor : tensors) result.push_back(torch::empty_like(tensor));
  return result;
}

// Rooms for gradients of hidden units, outputs and logit.
template <class T>
kernels::GeneratorRoom<T> room_in(const tensor_list& room) {
  return {values<T>(room[0]), values<T>(room[1]), values<T>(room[2])};
}

tensor_list room_like(at::TensorList state) {
  return {torch::empty_like(state[1]), torch::empty_like(state[2]), torch::empty_like(state[3])};
}

// Saved by both functions: x, what was kept, the operator's own tensors, then the parameters.
constexpr size_t kStateTensors = 5;

// Outputs: g, penalty (B), x with its branch.
class FusedSequenceHybrid : public torch::autograd::Function<FusedSequenceHybrid> {
 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, at::TensorList parameters, int64_t n,
                             bool entropy, double penalty_weight) {
    const auto branch = contiguous(branches);
    const auto [x, sums, entropies] = summarize(input.contiguous(), branch, n, entropy);
    const auto shape = generator_shape(x, parameters);
    const auto state = state_for(shape, x);
    const auto batch = x.size(0);
    const auto g = torch::empty({batch, 1, n, n}, x.options());
    const auto gamma = torch::empty({batch, 1, 1}, x.options());
    const auto penalty = torch::empty({batch}, x.options());
    on_gpu(x, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::hybrid_generators_forward(
          stream, generators_in<const T>(parameters), values<T>(sums), values<T>(entropies),
          state_in<T>(state), values<T>(g), values<T>(gamma), values<T>(penalty),
          T(penalty_weight / static_cast<double>(batch)), static_cast<int>(n), shape);
    });
    tensor_list saved = {x};
    saved.insert(saved.end(), state.begin(), state.end());
    saved.push_back(gamma);
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(saved);
    context->set_materialize_grads(false);  // zeros of the state's size where nothing skips
    context->saved_data["n"] = n;
    context->saved_data["branch"] = saved_type(branch);
    context->saved_data["entropy"] = entropy;
    context->saved_data["penalty_weight"] = penalty_weight / static_cast<double>(batch);
    return {g, penalty, branch.defined() ? x : input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::TensorList all(saved);
    const auto& x = saved[0];
    const auto state = all.slice(1, kStateTensors);
    const auto& gamma = saved[1 + kStateTensors];
    const auto parameters = all.slice(2 + kStateTensors);
    const auto n = context->saved_data["n"].toInt();
    const auto dg = gradient_or_zeros(gradients[0], {x.size(0), 1, n, n}, x),
               skip = contiguous(gradients[2]);
    const auto& dpenalty = gradients[1];  // expanded from one value, more often than not
    const auto dparameters = like_all(parameters), room = room_like(state);
    const auto dmean = torch::empty_like(state[0]);
    const auto dentropy =
        context->saved_data["entropy"].toBool() ? torch::empty_like(state[4]) : Tensor();
    on_gpu(x, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::hybrid_generators_backward(
          stream, generators_in<const T>(parameters), state_in<const T>(state), values<T>(gamma),
          values<T>(dg), values<T>(dpenalty), dpenalty.defined() ? dpenalty.stride(0) : 0,
          T(context->saved_data["penalty_weight"].toDouble()), room_in<T>(room), values<T>(dmean),
          values<T>(dentropy), generators_in<T>(dparameters), static_cast<int>(n),
          generator_shape(x, parameters));
    });
    const auto [dx, dbranch] =
        summarize_backward(x, branch_type(context), n, dmean, dentropy, skip);
    tensor_list result = {dx, dbranch};
    result.insert(result.end(), dparameters.begin(), dparameters.end());
    result.resize(result.size() + 3);
    return result;
  }
};

// Outputs: k, beta, x with its branch.
class FusedSequenceErase : public torch::autograd::Function<FusedSequenceErase> {
 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, at::TensorList parameters) {
    const auto branch = contiguous(branches);
    const auto [x, sums, none] =
        summarize(input.contiguous(), branch, summary_streams(input), false);
    const auto shape = generator_shape(x, parameters);
    const auto state = state_for(shape, x);
    const auto k = torch::empty({x.size(0), 1, x.size(2)}, x.options());
    const auto beta = torch::empty({x.size(0), 1, 1}, x.options());
    on_gpu(x, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::erase_generators_forward(stream, generators_in<const T>(parameters), values<T>(sums),
                                        state_in<T>(state), {values<T>(k), values<T>(beta)}, shape);
    });
    tensor_list saved = {x};
    saved.insert(saved.end(), state.begin(), state.end());
    saved.insert(saved.end(), {k, beta});
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(saved);
    context->saved_data["branch"] = saved_type(branch);
    return {k, beta, branch.defined() ? x : input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::TensorList all(saved);
    const auto& x = saved[0];
    const auto state = all.slice(1, kStateTensors);
    const auto &k = saved[1 + kStateTensors], &beta = saved[2 + kStateTensors];
    const auto parameters = all.slice(3 + kStateTensors);
    const auto dk = gradients[0].contiguous(), dbeta = gradients[1].contiguous(),
               skip = contiguous(gradients[2]);
    const auto dparameters = like_all(parameters), room = room_like(state);
    const auto dmean = torch::empty_like(state[0]);
    on_gpu(x, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::erase_generators_backward<T>(
          stream, generators_in<const T>(parameters), state_in<const T>(state),
          {values<T>(k), values<T>(beta)}, {values<T>(dk), values<T>(dbeta)}, room_in<T>(room),
          values<T>(dmean), generators_in<T>(dparameters), generator_shape(x, parameters));
    });
    const auto [dx, dbranch] =
        summarize_backward(x, branch_type(context), summary_streams(x), dmean, {}, skip);
    tensor_list result = {dx, dbranch};
    result.insert(result.end(), dparameters.begin(), dparameters.end());
    return result;
  }
};

// Outputs: g and LN(g).
class FusedEraseNorm : public torch::autograd::Function<FusedEraseNorm> {
 public:
  static tensor_list forward(AutogradContext* context, const Tensor& directions,
                             const Tensor& strengths, const Tensor& input, const Tensor& weights) {
    const auto k = directions.contiguous(), beta = strengths.contiguous(), x = input.contiguous(),
               weight = weights.contiguous();
    const auto g = torch::empty_like(x), h = for_product_of(x, x.sizes());
    const auto statistics = torch::empty({x.size(0), x.size(1), 2}, x.options());
    on_gpu(x, h, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::erase_norm_forward<T>(stream, {values<T>(k), values<T>(beta)}, values<T>(x),
                                     {.weight = values<T>(weight)}, values<T>(g), values<A>(h),
                                     statistics_in<T>(statistics), x.size(0), x.size(0) * x.size(1),
                                     x.size(2));
    });
    context->save_for_backward({k, beta, x, weight, statistics, gradient_place(weight)});
    return {g, h};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &k = saved[0], &beta = saved[1], &x = saved[2], &weight = saved[3];
    const auto dg = contiguous(gradients[0]), dh = gradients[1].contiguous();
    const auto dk = torch::empty_like(k), dbeta = torch::empty_like(beta),
               dx = torch::empty_like(x);
    const auto dweight = parameter_sum(weight, saved[5]);
    on_gpu(x, dh, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::erase_norm_backward<T>(stream, {values<T>(k), values<T>(beta)}, values<T>(x),
                                      {.weight = values<T>(weight)}, statistics_in<T>(saved[4]),
                                      values<T>(dg), values<A>(dh), values<T>(dx),
                                      {values<T>(dk), values<T>(dbeta)}, values<T>(dweight.sum),
                                      x.size(0), x.size(0) * x.size(1), x.size(2));
    });
    return {dk, dbeta, dx, dweight.gradient};
  }
};

}  // namespace

bool generators_run_fused(const Tensor& x, Pool pool, int64_t streams,
                          const std::vector<PerceptronWeights>& perceptrons) {
  if (!runs_cuda_kernel(x) || x.dim() != 3 || x.numel() == 0) return false;
  if (!kernels::is_device_stream_count(streams) || x.size(2) % streams != 0 ||
      x.size(2) / streams > kernels::kDeviceStreamWidth)
    return false;
  if (perceptrons.empty() || perceptrons.size() > kernels::kMostPerceptrons) return false;
  int64_t units = 0, others = x.size(2);
  for (const auto& perceptron : perceptrons) {
    if (perceptron.hidden.size(0) != perceptrons[0].hidden.size(0)) return false;
    units += perceptron.hidden_bias.numel();
    others += perceptron.output_bias.numel();
  }
  return pool == Pool::sequence ? units + others <= kernels::kMostGeneratorUnits
                                : units <= kernels::kMostTokenUnits;
}

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

SequenceErase sequence_erase(const State& state, const std::vector<PerceptronWeights>& k_beta) {
  const auto parameters = parameters_of(k_beta);
  const auto [x, branch] = for_kernels(state);
  const auto outputs = FusedSequenceErase::apply(x, maybe(branch), at::TensorList(parameters));
  return {.k = outputs[0], .beta = outputs[1], .skip = outputs[2]};
}

NormAndSkip erase_and_norm(const Tensor& k, const Tensor& beta, const Tensor& x,
                           const Tensor& weight) {
  if (runs_cuda_kernel(x) && k.size(1) == 1 && x.size(2) <= kernels::kDeviceRow) {
    const auto outputs = FusedEraseNorm::apply(k, beta, x, weight);
    return {.normalized = outputs[1], .skip = outputs[0]};
  }
  const auto g = x - beta * k * (x * k).sum(-1, /*keepdim=*/true);
  return {.normalized = layer_norm(g, weight), .skip = g};
}

}  // namespace geores
