// An operator for each token, on a GPU: a summary of each token's past (or the token), the
// perceptrons' hidden layers as one product in the type of products, and what follows it.
#include "geores/kernels/pooled/token_generators.h"

#include <algorithm>

#include "geores/kernels/pooled/erase.h"
#include "geores/kernels/pooled/token_summary.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/pooled/generator_parts.h"
#include "geores/ops/pooled/generators.h"

namespace geores {
namespace {

using namespace fused;

// Of x, the input and its branch together: means as products take them, undefined where that is x
// itself; entropies (tokens) or undefined.
struct TokenSummary {
  Tensor x, means, entropies;
};

int64_t running_length(const Tensor& x, bool causal) { return causal ? x.size(1) : 0; }

TokenSummary summarize_tokens(const Tensor& input, const Tensor& branch, int64_t n, bool causal,
                              bool entropy) {
  const TokenSummary s{
      .x = branch.defined() ? torch::empty_like(input) : input,
      .means = causal || product_type(input.scalar_type()) != input.scalar_type()
                   ? for_product_of(input, input.sizes())
                   : Tensor(),
      .entropies =
          entropy ? torch::empty({input.size(0) * input.size(1)}, input.options()) : Tensor()};
  if (branch.defined() || s.means.defined() || entropy)
    on_gpu(input, s.means.defined() ? s.means : input,
           [&]<class T, class A>(T, A, kernels::CudaStream stream) {
             kernels::token_summary_forward(
                 stream, values<T>(input), values<A>(branch), values<T>(s.x), values<A>(s.means),
                 values<T>(s.entropies), running_length(input, causal), summary_shape(input, n));
           });
  return s;
}

// What the perceptrons read: (tokens, width).
Tensor summary_rows(const Tensor& means, const Tensor& x) {
  return (means.defined() ? means : x).view({-1, x.size(2)});
}

// Gradients of the input and of its branch, which is of this type.
std::pair<Tensor, Tensor> summarize_tokens_backward(const Tensor& x, torch::ScalarType branch,
                                                    int64_t n, bool causal, const Tensor& dmeans,
                                                    const Tensor& dentropies, const Tensor& skip) {
  const auto dx = torch::empty_like(x);
  const auto dbranch =
      branch == torch::ScalarType::Undefined ? Tensor() : torch::empty_like(x, branch);
  on_gpu(x, dbranch, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
    kernels::token_summary_backward(stream, values<T>(x), values<T>(dmeans), values<T>(dentropies),
                                    values<T>(skip), values<T>(dx), values<A>(dbranch),
                                    running_length(x, causal), summary_shape(x, n));
  });
  return {dx, dbranch};
}

// Weights as products take them; outputs undefined where they are not wanted.
struct PackedPerceptrons {
  Tensor hidden, outputs;
};

PackedPerceptrons pack_perceptrons(const Tensor& x, at::TensorList parameters,
                                   const kernels::GeneratorShape& shape, bool with_outputs) {
  const int64_t columns = kernels::hidden_columns(shape, has_gate(parameters));
  const PackedPerceptrons packed{
      .hidden = for_product_of(x, {columns, shape.in}),
      .outputs = with_outputs
                     ? for_product_of(x, {kernels::in_eights(shape.all_outputs()), columns})
                     : Tensor()};
  on_gpu(x, packed.hidden, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
    kernels::pack_perceptrons(stream, generators_in<const T>(parameters), values<A>(packed.hidden),
                              values<A>(packed.outputs), shape);
  });
  return packed;
}

// Room for a packed matrix's gradient, for the backward pass that follows: where it may be left to
// WeightGradients.
Tensor room_for(const Tensor& packed, const Tensor& x) {
  if (packed.scalar_type() != torch::kBFloat16) return {};
  return take_sum_room(torch::empty(packed.sizes(), x.options()));
}

// What the gradients of the parameters are added to, and what autograd gets.
struct ParameterSums {
  tensor_list sums, gradients;

  ParameterSums(at::TensorList parameters, at::TensorList places) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto [sum, gradient] = parameter_sum(parameters[i], places[i]);
      sums.push_back(sum);
      gradients.push_back(gradient);
    }
  }

  bool all_placed() const {
    return std::none_of(gradients.begin(), gradients.end(),
                        [](const Tensor& gradient) { return gradient.defined(); });
  }
};

// unpack(stream, dyᵀ x), which adds to the parameters' sums: beside the backward pass where
// autograd gets none of them, because it would not wait.
template <class Unpack>
void add_packed(AutogradContext* context, const Tensor& dy, const Tensor& x,
                const Tensor& packed_room, const ParameterSums& parameters, const Unpack& unpack) {
  auto* taker = kept_in(context);
  if (taker && packed_room.defined() && parameters.all_placed() && WeightGradients::fit(dy, x)) {
    taker->add(dy, x, packed_room);
    taker->then([unpack, packed_room](kernels::CudaStream stream) { unpack(stream, packed_room); }, {});
    return;
  }
  const auto product = multiply(dy.t(), x, parameters.sums[0].scalar_type());
  if constexpr (kernels::kHasCuda) unpack(current_cuda_stream(), product);
}

auto hidden_unpacking(const tensor_list& sums, const kernels::GeneratorShape& shape) {
  return [sums, shape]([[maybe_unused]] kernels::CudaStream stream, const Tensor& dpacked) {
    for_type_of(dpacked, [&]<class T>(T) {
      if constexpr (kernels::kHasCuda)
        kernels::unpack_hidden(stream, values<T>(dpacked), generators_in<T>(sums), shape);
    });
  };
}

auto output_unpacking(const tensor_list& sums, const kernels::GeneratorShape& shape) {
  return [sums, shape]([[maybe_unused]] kernels::CudaStream stream, const Tensor& dpacked) {
    for_type_of(dpacked, [&]<class T>(T) {
      if constexpr (kernels::kHasCuda)
        kernels::unpack_outputs(stream, values<T>(dpacked), generators_in<T>(sums), shape);
    });
  };
}

// After what a function saves for itself: the parameters' places, then the parameters.
void save_with_places(AutogradContext* context, tensor_list own, at::TensorList parameters) {
  for (const auto& parameter : parameters) own.push_back(gradient_place(parameter));
  own.insert(own.end(), parameters.begin(), parameters.end());
  context->save_for_backward(own);
  keep(context, weight_gradients());
}

struct SavedParameters {
  at::TensorList places, parameters;

  SavedParameters(at::TensorList saved, size_t own)
      : places(saved.slice(own, (saved.size() - own) / 2)),
        parameters(saved.slice(own + places.size())) {}
};

// Outputs: g, penalty, x with its branch.
class FusedTokenHybrid : public torch::autograd::Function<FusedTokenHybrid> {
  static constexpr size_t kSaved = 7;

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, at::TensorList parameters, int64_t n,
                             bool causal, bool entropy, double penalty_weight) {
    const auto branch = contiguous(branches);
    const auto [x, means, entropies] =
        summarize_tokens(input.contiguous(), branch, n, causal, entropy);
    const auto shape = generator_shape(x, parameters);
    const auto packed = pack_perceptrons(x, parameters, shape, false).hidden;
    const auto hidden = multiply(summary_rows(means, x), packed.t(), x.scalar_type());
    const auto tokens = hidden.size(0), at_once = int64_t{kernels::kTokensAtOnce};
    const auto share = penalty_weight / static_cast<double>(tokens);
    const auto raw = torch::empty({tokens, shape.all_outputs()}, x.options());
    const auto g = torch::empty({x.size(0), x.size(1), n, n}, x.options());
    const auto penalty = torch::empty({(tokens + at_once - 1) / at_once}, x.options());
    on_gpu(x, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::token_hybrid_forward(stream, generators_in<const T>(parameters), values<T>(hidden),
                                    values<T>(entropies), values<T>(raw), values<T>(g),
                                    values<T>(penalty), T(share), static_cast<int>(n), shape);
    });
    save_with_places(context, {x, means, entropies, packed, hidden, raw, room_for(packed, x)},
                     parameters);
    context->saved_data["n"] = n;
    context->saved_data["branch"] = saved_type(branch);
    context->saved_data["causal"] = causal;
    context->saved_data["penalty_weight"] = share;
    context->set_materialize_grads(false);  // zeros of the state's size where nothing skips
    return {g, penalty, branch.defined() ? x : input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &means = saved[1], &entropies = saved[2], &packed = saved[3],
               &hidden = saved[4], &raw = saved[5], &packed_room = saved[6];
    const SavedParameters own(saved, kSaved);
    const ParameterSums parameters(own.parameters, own.places);
    const auto shape = generator_shape(x, own.parameters);
    const auto n = context->saved_data["n"].toInt();
    const auto dg = gradient_or_zeros(gradients[0], {x.size(0), x.size(1), n, n}, x),
               skip = contiguous(gradients[2]);
    const auto& dpenalty = gradients[1];  // expanded from one value, more often than not
    const auto dhidden = torch::empty(hidden.sizes(), packed.options());
    const auto dentropies = room_if(entropies.defined(), entropies);
    on_gpu(x, dhidden, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::token_hybrid_backward(
          stream, generators_in<const T>(own.parameters), values<T>(hidden), values<T>(entropies),
          values<T>(raw), values<T>(dg), values<T>(dpenalty),
          dpenalty.defined() ? dpenalty.stride(0) : 0,
          T(context->saved_data["penalty_weight"].toDouble()), values<A>(dhidden),
          values<T>(dentropies), generators_in<T>(parameters.sums), static_cast<int>(n), shape);
    });
    add_packed(context, dhidden, summary_rows(means, x), packed_room, parameters,
               hidden_unpacking(parameters.sums, shape));
    const auto [dx, dbranch] = summarize_tokens_backward(
        x, branch_type(context), n, context->saved_data["causal"].toBool(),
        multiply(dhidden, packed, x.scalar_type()), dentropies, skip);
    tensor_list result = {dx, dbranch};
    result.insert(result.end(), parameters.gradients.begin(), parameters.gradients.end());
    result.resize(result.size() + 4);
    return result;
  }
};

// Outputs: g = x − β k (kᵀx), x with its branch, and LN(g).
class FusedTokenErase : public torch::autograd::Function<FusedTokenErase> {
  static constexpr size_t kSaved = 12;

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, const Tensor& norm_weight,
                             at::TensorList parameters, bool causal) {
    const auto branch = contiguous(branches), weight = norm_weight.contiguous();
    const auto summary =
        summarize_tokens(input.contiguous(), branch, summary_streams(input), causal, false);
    const auto& x = summary.x;
    const auto shape = generator_shape(x, parameters);
    const auto [packed, packed_outputs] = pack_perceptrons(x, parameters, shape, true);
    const auto hidden = multiply(summary_rows(summary.means, x), packed.t(), x.scalar_type());
    const auto active = torch::empty(hidden.sizes(), packed.options());
    on_gpu(x, active, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::hidden_gelu_forward(stream, generators_in<const T>(parameters), values<T>(hidden),
                                   values<A>(active), shape);
    });
    const auto raw = multiply(active, packed_outputs.t(), x.scalar_type());
    const auto g = torch::empty_like(x), h = for_product_of(x, x.sizes());
    const auto statistics = torch::empty({x.size(0), x.size(1), 2}, x.options());
    on_gpu(x, h, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::token_erase_norm_forward<T>(
          stream, raw_erase<T>(raw, parameters), values<T>(x), {.weight = values<T>(weight)},
          values<T>(g), values<A>(h), statistics_in<T>(statistics), raw.size(0), x.size(2));
    });
    save_with_places(
        context,
        {x, summary.means, packed, packed_outputs, hidden, active, raw, statistics, weight,
         gradient_place(weight), room_for(packed, x), room_for(packed_outputs, x)},
        parameters);
    context->saved_data["branch"] = saved_type(branch);
    context->saved_data["causal"] = causal;
    return {g, h};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &means = saved[1], &packed = saved[2], &packed_outputs = saved[3],
               &hidden = saved[4], &active = saved[5], &raw = saved[6], &statistics = saved[7],
               &weight = saved[8], &packed_room = saved[10], &outputs_room = saved[11];
    const SavedParameters own(saved, kSaved);
    const ParameterSums parameters(own.parameters, own.places);
    const auto& sums = parameters.sums;
    const auto shape = generator_shape(x, own.parameters);
    const auto dweight = parameter_sum(weight, saved[9]);
    const auto dg = contiguous(gradients[0]), dh = gradients[1].contiguous();
    const auto dx_around = torch::empty_like(x), draw = torch::empty(raw.sizes(), packed.options());
    on_gpu(x, draw, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::token_erase_norm_backward<T>(
          stream, raw_erase<T>(raw, own.parameters), values<T>(x), {.weight = values<T>(weight)},
          statistics_in<T>(statistics), values<T>(dg), values<A>(dh), values<T>(dx_around),
          values<A>(draw), values<T>(sums[3]), values<T>(sums[7]), values<T>(dweight.sum),
          raw.size(0), x.size(2));
    });
    const auto dactive = multiply(draw, packed_outputs, x.scalar_type());
    const auto dhidden = torch::empty_like(active);
    on_gpu(x, dhidden, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::hidden_gelu_backward(stream, generators_in<const T>(own.parameters),
                                    values<T>(hidden), values<T>(dactive), values<A>(dhidden),
                                    generators_in<T>(sums), shape);
    });
    add_packed(context, draw, active, outputs_room, parameters, output_unpacking(sums, shape));
    add_packed(context, dhidden, summary_rows(means, x), packed_room, parameters,
               hidden_unpacking(sums, shape));
    const auto [dx, dbranch] = summarize_tokens_backward(
        x, branch_type(context), summary_streams(x), context->saved_data["causal"].toBool(),
        multiply(dhidden, packed, x.scalar_type()), {}, dx_around);
    tensor_list result = {dx, dbranch, dweight.gradient};
    result.insert(result.end(), parameters.gradients.begin(), parameters.gradients.end());
    result.push_back(Tensor());
    return result;
  }

 private:
  // Perceptrons k and β: their output biases are the parameters 3 and 7.
  template <class T>
  static kernels::RawEraseArrays<const T> raw_erase(const Tensor& raw, at::TensorList parameters) {
    return {values<T>(raw), values<T>(parameters[3]), values<T>(parameters[7]), raw.size(1)};
  }
};

}  // namespace

Hybrid token_hybrid(const State& state, Pool pool, int64_t streams,
                    const std::vector<PerceptronWeights>& u_v_beta_k, const HybridGate& gate) {
  auto parameters = parameters_of(u_v_beta_k);
  parameters.insert(parameters.end(), {gate.weight, gate.bias});
  const auto [x, branch] = for_kernels(state);
  const auto outputs =
      FusedTokenHybrid::apply(x, maybe(branch), at::TensorList(parameters), streams,
                              pool == Pool::causal, gate.entropy, gate.penalty_weight);
  return {.g = outputs[0],
          .penalty = gate.penalty_weight > 0 ? outputs[1] : Tensor(),
          .skip = outputs[2]};
}

NormAndSkip token_erase_and_norm(const State& state, Pool pool,
                                 const std::vector<PerceptronWeights>& k_beta,
                                 const Tensor& weight) {
  const auto parameters = parameters_of(k_beta);
  const auto [x, branch] = for_kernels(state);
  const auto outputs = FusedTokenErase::apply(x, maybe(branch), weight, at::TensorList(parameters),
                                              pool == Pool::causal);
  return {.normalized = outputs[1], .skip = outputs[0]};
}

}  // namespace geores
