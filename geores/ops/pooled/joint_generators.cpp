#include "geores/kernels/pooled/joint_generators.h"

#include "geores/kernels/streams/sequence_mix.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/pooled/generator_parts.h"
#include "geores/ops/pooled/summary.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

// Outputs: G x, and the penalties of the sequences (B).
class FusedJointMix : public torch::autograd::Function<FusedJointMix> {
  struct Kept {
    Tensor x, g, input, normal, inverse, hidden, raw;
    std::vector<Tensor> perceptron;
    Tensor norm_weight, norm_bias;
    Tensor norm_weight_slot, norm_bias_slot;
    int64_t n;
    double penalty_share;  // of one sequence

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.g), f(s.input), f(s.normal), f(s.inverse), f(s.hidden), f(s.raw), f(s.perceptron),
          f(s.norm_weight), f(s.norm_bias);
    }

    kernels::GeneratorShape shape() const {
      return kernels::joint_shape(static_cast<int>(x.size(0)), static_cast<int>(x.size(1)),
                                  static_cast<int>(x.size(2)),
                                  static_cast<int>(perceptron[0].size(0)), static_cast<int>(n));
    }

    template <class T>
    kernels::JointGenerators<const T> parameters() const {
      return {generators_in<const T>(perceptron).nets[0], values<T>(norm_weight),
              values<T>(norm_bias)};
    }

    template <class T>
    kernels::JointState<T> state() const {
      using Value = std::remove_const_t<T>;
      return {values<Value>(input), values<Value>(normal), values<Value>(inverse),
              values<Value>(hidden), values<Value>(raw)};
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const Tensor& norm_weights, const Tensor& norm_biases,
                             at::TensorList perceptron, int64_t n, double penalty_weight) {
    const auto x = input.contiguous();
    const auto batch = x.size(0);
    const auto buffer = [&](int64_t width) { return torch::empty({batch, width}, x.options()); };
    Kept kept{.x = x,
              .g = torch::empty({batch, 1, n, n}, x.options()),
              .input = buffer(x.size(2)),
              .normal = buffer(x.size(2)),
              .inverse = buffer(1),
              .hidden = buffer(perceptron[0].size(0)),
              .raw = buffer(3 * n + 2),
              .perceptron = perceptron.vec(),
              .norm_weight = norm_weights.contiguous(),
              .norm_bias = norm_biases.contiguous(),
              .norm_weight_slot = gradient_slot(norm_weights),
              .norm_bias_slot = gradient_slot(norm_biases),
              .n = n,
              .penalty_share = penalty_weight / static_cast<double>(batch)};
    const auto sums = summarize(x, {}, n, Pool::sequence, false).means;
    const auto mixed = torch::empty_like(x), penalty = torch::empty({batch}, x.options());
    on_gpu(x, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::joint_generators_forward(cuda_stream, kept.parameters<T>(),
                                        static_cast<const T*>(values<T>(sums)), kept.state<T>(),
                                        values<T>(kept.g), values<T>(penalty),
                                        T(kept.penalty_share), static_cast<int>(n), kept.shape());
      kernels::sequence_mix_forward<T>(cuda_stream, values<T>(kept.g), values<T>(x),
                                       values<T>(mixed), batch, split_shape(x, n));
    });
    save(context, std::move(kept));
    context->set_materialize_grads(false);
    return {mixed, penalty};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dmixed = gradient_or_zeros(gradients[0], s.x.sizes(), s.x);
    const auto& dpenalty = gradients[1];  // often one value, expanded
    const auto batch = s.x.size(0);
    const auto dg = torch::empty({batch, kernels::kMixParts, s.n, s.n}, s.x.options());
    const auto dhidden = torch::empty_like(s.hidden), draw = torch::empty_like(s.raw),
               dmean = torch::empty_like(s.input), dx = torch::empty_like(s.x);
    const auto dnorm_weight = parameter_sum(s.norm_weight, s.norm_weight_slot),
               dnorm_bias = parameter_sum(s.norm_bias, s.norm_bias_slot);
    tensor_list dperceptron;
    for (const auto& parameter : s.perceptron) dperceptron.push_back(torch::empty_like(parameter));
    const auto shape = split_shape(s.x, s.n);
    on_gpu(s.x, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::sequence_mix_sums<T>(cuda_stream, values<T>(dmixed), values<T>(s.x), values<T>(dg),
                                    batch, shape);
      kernels::joint_generators_backward<T>(
          cuda_stream, s.parameters<T>(), s.state<const T>(),
          {.dg = values<T>(dg),
           .dpenalty = values<T>(dpenalty),
           .parts = kernels::kMixParts,
           .dpenalty_stride = dpenalty.defined() ? dpenalty.stride(0) : 0,
           .penalty_weight = T(s.penalty_share),
           .dhidden = values<T>(dhidden),
           .draw = values<T>(draw),
           .dmean = values<T>(dmean)},
          {generators_in<T>(dperceptron).nets[0], values<T>(dnorm_weight.sum),
           values<T>(dnorm_bias.sum)},
          static_cast<int>(s.n), s.shape());
      kernels::sequence_mix_backward<T>(cuda_stream, values<T>(s.g), values<T>(dmixed),
                                        values<T>(dmean), values<T>(dx), batch, shape);
    });
    tensor_list result = {dx, dnorm_weight.gradient, dnorm_bias.gradient};
    result.insert(result.end(), dperceptron.begin(), dperceptron.end());
    result.resize(result.size() + 2);
    return result;
  }
};

}  // namespace

std::optional<JointMix> fused_joint_mix(const Tensor& x, int64_t streams, const Tensor& norm_weight,
                                        const Tensor& norm_bias,
                                        const PerceptronWeights& perceptron,
                                        double penalty_weight) {
  if (!generators_run_fused(x, Pool::sequence, streams, streams * kernels::kDeviceStreamWidth,
                            {perceptron}))
    return std::nullopt;
  const auto parameters = parameters_of({perceptron});
  const auto outputs = FusedJointMix::apply(x, norm_weight, norm_bias, at::TensorList(parameters),
                                            streams, penalty_weight);
  return JointMix{.mixed = outputs[0], .penalty = penalty_weight > 0 ? outputs[1] : Tensor()};
}

}  // namespace geores
