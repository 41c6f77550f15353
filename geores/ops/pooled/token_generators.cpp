// An operator for each token, on a GPU: a summary of each token's past (or of the token), the
// perceptrons' hidden layers as one product in the type of products, and the operator's kernel.
#include "geores/kernels/pooled/token_generators.h"

#include "geores/kernels/pooled/erase.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/packed_gradients.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/pooled/generator_parts.h"
#include "geores/ops/pooled/summary.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

// The input of the perceptrons: (tokens, width).
Tensor summary_rows(const Tensor& means, const Tensor& x) {
  return (means.defined() ? means : x).view({-1, x.size(2)});
}

// Weights as products' factors; outputs undefined if not needed.
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
  on_gpu(x, packed.hidden, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
    kernels::pack_perceptrons(cuda_stream, generators_in<const T>(parameters),
                              values<A>(packed.hidden), values<A>(packed.outputs), shape);
  });
  return packed;
}

enum class PerceptronLayer { hidden, output };

// Unpacks the gradient of a packed matrix to the weights of this layer, for PackedGradient.
auto unpacking(PerceptronLayer layer, const std::vector<Tensor>& sums,
               const kernels::GeneratorShape& shape) {
  return [layer, sums, shape]([[maybe_unused]] kernels::CudaStream cuda_stream,
                              const Tensor& dpacked) {
    for_type_of(dpacked, [&]<class T>(T) {
      if constexpr (kernels::kHasCuda) {
        if (layer == PerceptronLayer::hidden)
          kernels::unpack_hidden(cuda_stream, values<T>(dpacked), generators_in<T>(sums), shape);
        else
          kernels::unpack_outputs(cuda_stream, values<T>(dpacked), generators_in<T>(sums), shape);
      }
    });
  };
}

// Outputs: g, penalty, x with its branch.
class FusedTokenHybrid : public torch::autograd::Function<FusedTokenHybrid> {
  struct Kept {
    Tensor x, means, entropies, packed, hidden, raw;
    KeptParameters parameters;
    PackedGradient packed_gradient;
    torch::ScalarType branch;
    int64_t n;
    Pool pool;
    double penalty_share;  // of one token

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.means), f(s.entropies), f(s.packed), f(s.hidden), f(s.raw),
          f(s.parameters.values);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, at::TensorList parameters, int64_t n,
                             Pool pool, bool entropy, double penalty_weight) {
    const auto branch = contiguous(branches);
    const auto [x, means, entropies] = summarize(input.contiguous(), branch, n, pool, entropy);
    const auto shape = generator_shape(x, parameters);
    const auto packed = pack_perceptrons(x, parameters, shape, false).hidden;
    const auto hidden = multiply(summary_rows(means, x), packed.t(), x.scalar_type());
    const auto tokens = hidden.size(0), at_once = int64_t{kernels::kTokensAtOnce};
    const auto share = penalty_weight / static_cast<double>(tokens);
    const auto raw = torch::empty({tokens, shape.all_outputs()}, x.options());
    const auto g = torch::empty({x.size(0), x.size(1), n, n}, x.options());
    const auto penalty = torch::empty({(tokens + at_once - 1) / at_once}, x.options());
    on_gpu(x, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::token_hybrid_forward(
          cuda_stream, generators_in<const T>(parameters), values<T>(hidden), values<T>(entropies),
          values<T>(raw), values<T>(g), values<T>(penalty), T(share), static_cast<int>(n), shape);
    });
    save(context,
         Kept{.x = x,
              .means = means,
              .entropies = entropies,
              .packed = packed,
              .hidden = hidden,
              .raw = raw,
              .parameters = KeptParameters::of(parameters),
              .packed_gradient = PackedGradient::of(packed.sizes(), packed.scalar_type(), x),
              .branch = branch.scalar_type(),
              .n = n,
              .pool = pool,
              .penalty_share = share});
    context->set_materialize_grads(
        false);  // avoids zeros of the state's size for an unused skip output
    return {g, penalty, branch.defined() ? x : input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const ParameterSums parameters(s.parameters);
    const auto shape = generator_shape(s.x, s.parameters.values);
    const auto dg = gradient_or_zeros(gradients[0], {s.x.size(0), s.x.size(1), s.n, s.n}, s.x),
               skip = contiguous(gradients[2]);
    const auto& dpenalty = gradients[1];  // often one value, expanded
    const auto dhidden = torch::empty(s.hidden.sizes(), s.packed.options());
    const auto dentropies = buffer_if(s.entropies.defined(), s.entropies);
    on_gpu(s.x, dhidden, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::token_hybrid_backward(
          cuda_stream, generators_in<const T>(s.parameters.values), values<T>(s.hidden),
          values<T>(s.entropies), values<T>(s.raw), values<T>(dg), values<T>(dpenalty),
          dpenalty.defined() ? dpenalty.stride(0) : 0, T(s.penalty_share), values<A>(dhidden),
          values<T>(dentropies), generators_in<T>(parameters.sums), static_cast<int>(s.n), shape);
    });
    s.packed_gradient.add(dhidden, summary_rows(s.means, s.x), s.x.scalar_type(),
                          parameters.all_have_slots(),
                          unpacking(PerceptronLayer::hidden, parameters.sums, shape));
    const auto [dx, dbranch] =
        summarize_backward(s.x, s.branch, s.n, s.pool,
                           multiply(dhidden, s.packed, s.x.scalar_type()), dentropies, skip);
    tensor_list result = {dx, dbranch};
    result.insert(result.end(), parameters.gradients.begin(), parameters.gradients.end());
    result.resize(result.size() + 4);
    return result;
  }
};

// Outputs: g = x − β k (kᵀx) for x with its branch, and LN(g).
class FusedTokenErase : public torch::autograd::Function<FusedTokenErase> {
  struct Kept {
    Tensor x, means, packed, packed_outputs, hidden, active, raw, statistics, weight;
    KeptParameters parameters;
    Tensor weight_slot;
    PackedGradient packed_gradient, outputs_gradient;
    torch::ScalarType branch;
    Pool pool;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.means), f(s.packed), f(s.packed_outputs), f(s.hidden), f(s.active), f(s.raw),
          f(s.statistics), f(s.weight), f(s.parameters.values);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, const Tensor& norm_weight,
                             at::TensorList parameters, Pool pool) {
    const auto branch = contiguous(branches), weight = norm_weight.contiguous();
    const auto summary = summarize(input.contiguous(), branch, kAnyStreams, pool, false);
    const auto& x = summary.x;
    const auto shape = generator_shape(x, parameters);
    const auto [packed, packed_outputs] = pack_perceptrons(x, parameters, shape, true);
    const auto hidden = multiply(summary_rows(summary.means, x), packed.t(), x.scalar_type());
    const auto active = torch::empty(hidden.sizes(), packed.options());
    on_gpu(x, active, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::hidden_gelu_forward(cuda_stream, generators_in<const T>(parameters),
                                   values<T>(hidden), values<A>(active), shape);
    });
    const auto raw = multiply(active, packed_outputs.t(), x.scalar_type());
    const auto g = torch::empty_like(x), h = for_product_of(x, x.sizes());
    const auto statistics = torch::empty({x.size(0), x.size(1), 2}, x.options());
    on_gpu(x, h, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::token_erase_norm_forward<T>(
          cuda_stream, raw_erase<T>(raw, parameters), values<T>(x), {.weight = values<T>(weight)},
          values<T>(g), values<A>(h), statistics_in<T>(statistics), raw.size(0), x.size(2));
    });
    const auto type = packed.scalar_type();
    save(context, Kept{.x = x,
                       .means = summary.means,
                       .packed = packed,
                       .packed_outputs = packed_outputs,
                       .hidden = hidden,
                       .active = active,
                       .raw = raw,
                       .statistics = statistics,
                       .weight = weight,
                       .parameters = KeptParameters::of(parameters),
                       .weight_slot = gradient_slot(weight),
                       .packed_gradient = PackedGradient::of(packed.sizes(), type, x),
                       .outputs_gradient = PackedGradient::of(packed_outputs.sizes(), type, x),
                       .branch = branch.scalar_type(),
                       .pool = pool});
    return {g, h};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const ParameterSums parameters(s.parameters);
    const auto& sums = parameters.sums;
    const auto shape = generator_shape(s.x, s.parameters.values);
    const auto dweight = parameter_sum(s.weight, s.weight_slot);
    const auto dg = contiguous(gradients[0]), dh = gradients[1].contiguous();
    const auto dx_around = torch::empty_like(s.x),
               draw = torch::empty(s.raw.sizes(), s.packed.options());
    on_gpu(s.x, draw, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      const auto to = generators_in<T>(sums);
      kernels::token_erase_norm_backward<T>(
          cuda_stream, raw_erase<T>(s.raw, s.parameters.values), values<T>(s.x),
          {.weight = values<T>(s.weight)}, statistics_in<T>(s.statistics), values<T>(dg),
          values<A>(dh), values<T>(dx_around), values<A>(draw), to.nets[0].output_bias,
          to.nets[1].output_bias, values<T>(dweight.sum), s.raw.size(0), s.x.size(2));
    });
    const auto dactive = multiply(draw, s.packed_outputs, s.x.scalar_type());
    const auto dhidden = torch::empty_like(s.active);
    on_gpu(s.x, dhidden, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::hidden_gelu_backward(cuda_stream, generators_in<const T>(s.parameters.values),
                                    values<T>(s.hidden), values<T>(dactive), values<A>(dhidden),
                                    generators_in<T>(sums), shape);
    });
    const auto type = s.x.scalar_type();
    const bool all_have_slots = parameters.all_have_slots();
    s.outputs_gradient.add(draw, s.active, type, all_have_slots,
                           unpacking(PerceptronLayer::output, sums, shape));
    s.packed_gradient.add(dhidden, summary_rows(s.means, s.x), type, all_have_slots,
                          unpacking(PerceptronLayer::hidden, sums, shape));
    const auto [dx, dbranch] = summarize_backward(s.x, s.branch, kAnyStreams, s.pool,
                                                  multiply(dhidden, s.packed, type), {}, dx_around);
    tensor_list result = {dx, dbranch, dweight.gradient};
    result.insert(result.end(), parameters.gradients.begin(), parameters.gradients.end());
    result.push_back(Tensor());
    return result;
  }

 private:
  // The raw outputs of the perceptrons k and β, with their output biases.
  template <class T>
  static kernels::RawEraseArrays<const T> raw_erase(const Tensor& raw, at::TensorList parameters) {
    const auto generators = generators_in<const T>(parameters);
    return {values<T>(raw), generators.nets[0].output_bias, generators.nets[1].output_bias,
            raw.size(1)};
  }
};

}  // namespace

namespace fused {

Hybrid token_hybrid(const State& state, Pool pool, int64_t streams,
                    const std::vector<PerceptronWeights>& u_v_beta_k, const HybridGate& gate) {
  auto parameters = parameters_of(u_v_beta_k);
  parameters.insert(parameters.end(), {gate.weight, gate.bias});
  const auto [x, branch] = for_kernels(state);
  const auto outputs = FusedTokenHybrid::apply(x, maybe(branch), at::TensorList(parameters),
                                               streams, pool, gate.entropy, gate.penalty_weight);
  return {.g = outputs[0],
          .penalty = gate.penalty_weight > 0 ? outputs[1] : Tensor(),
          .skip = outputs[2]};
}

}  // namespace fused

std::optional<NormAndSkip> fused_token_erase(const State& state, Pool pool,
                                             const std::vector<PerceptronWeights>& k_beta,
                                             const Tensor& weight) {
  if (!generators_run_fused(state.x, pool, kAnyStreams, kernels::kDeviceRow, k_beta))
    return std::nullopt;
  const auto parameters = parameters_of(k_beta);
  const auto [x, branch] = for_kernels(state);
  const auto outputs =
      FusedTokenErase::apply(x, maybe(branch), weight, at::TensorList(parameters), pool);
  return NormAndSkip{.normalized = outputs[1], .skip = outputs[0]};
}

}  // namespace geores
