#include "geores/ops/mixers/permutations.h"

#include <cmath>
#include <vector>

#include "geores/kernels/mixers/permutations.h"
#include "geores/kernels/sizes.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

class FusedPermutationMixture : public torch::autograd::Function<FusedPermutationMixture> {
  struct Kept {
    Tensor logits;
    int64_t n;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.logits);
    }
  };

  static kernels::MixerShape shape(const Tensor& logits, int64_t n) {
    return {.tokens = logits.size(0) * logits.size(1), .n = n};
  }

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, int64_t n) {
    const auto logits = input.contiguous();
    const auto h = torch::empty({logits.size(0), logits.size(1), n, n}, logits.options());
    on_gpu(logits, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::permutation_mixture_forward(cuda_stream, values<T>(logits), values<T>(h),
                                           shape(logits, n));
    });
    save(context, Kept{.logits = logits, .n = n});
    return h;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dh = gradients[0].contiguous();
    const auto dlogits = torch::empty_like(s.logits);
    on_gpu(dh, [&]<class T>(T, kernels::CudaStream cuda_stream) {
      kernels::permutation_mixture_backward(cuda_stream, values<T>(s.logits), values<T>(dh),
                                            values<T>(dlogits), shape(s.logits, s.n));
    });
    return {dlogits, Tensor()};
  }
};

int64_t streams_of(const Tensor& permutations) {
  return std::lround(std::sqrt(permutations.size(1)));
}

}  // namespace

Tensor permutation_mixture(const Tensor& logits, const Tensor& permutations) {
  const ExecutionScope exact(Precision::fp32);
  const auto n = streams_of(permutations);
  return linear_map(logits.softmax(-1), permutations.t()).unflatten(-1, std::vector<int64_t>{n, n});
}

Tensor all_permutations_mixture(const Tensor& logits, const Tensor& permutations) {
  static const auto sizes = numbers_that(kernels::is_device_mixer_size) + " streams";
  const auto n = streams_of(permutations);
  if (!KernelChoice("permutation_mixture", logits)
           .need(on_gpu(logits), "a GPU")
           .need(logits.dim() == 3 && logits.numel() > 0, "at least one token")
           .need(kernels::is_device_mixer_size(n), sizes.c_str())
           .runs())
    return permutation_mixture(logits, permutations);
  return FusedPermutationMixture::apply(logits, n);
}

}  // namespace geores
