#include "geores/ops/mixers/sphere.h"

#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/sizes.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

class FusedSphere : public torch::autograd::Function<FusedSphere> {
  struct Kept {
    Tensor left, right, sigma;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.left), f(s.right), f(s.sigma);
    }

    template <class T>
    kernels::SphereArrays<const T> arrays() const {
      return {values<T>(left), values<T>(right), values<T>(sigma)};
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& left, const Tensor& right,
                        const Tensor& sigma) {
    const Kept kept{
        .left = left.contiguous(), .right = right.contiguous(), .sigma = sigma.contiguous()};
    const auto n = sigma.size(-1) + 1;
    auto h = torch::empty({sigma.size(0), sigma.size(1), n, n}, sigma.options());
    on(sigma, [&]<class T>(T, auto... cuda_stream) {
      kernels::spectral_sphere_forward(cuda_stream..., kept.arrays<T>(), values<T>(h),
                                       {.tokens = sigma.size(0) * sigma.size(1), .n = n});
    });
    save(context, kept);
    return h;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dh = gradients[0].contiguous();
    const auto dleft = torch::empty_like(s.left), dright = torch::empty_like(s.right),
               dsigma = torch::empty_like(s.sigma);
    on(dh, [&]<class T>(T, auto... cuda_stream) {
      kernels::spectral_sphere_backward<T>(cuda_stream..., s.arrays<T>(), values<T>(dh),
                                           {values<T>(dleft), values<T>(dright), values<T>(dsigma)},
                                           {.tokens = dh.size(0) * dh.size(1), .n = dh.size(-1)});
    });
    return {dleft, dright, dsigma};
  }
};

}  // namespace

std::optional<Tensor> fused_spectral_sphere(const Tensor& left, const Tensor& right,
                                            const Tensor& sigma) {
  const auto n = sigma.size(-1) + 1;
  static const auto cpu_sizes = numbers_that(kernels::is_compiled_size) + " streams",
                    gpu_sizes = numbers_that(kernels::is_log_mixer_size) + " streams";
  if (!KernelChoice("spectral_sphere", sigma)
           .need(n >= 3, "at least 3 streams")
           .need_on_cpu(kernels::is_compiled_size(n), cpu_sizes.c_str())
           .need_on_gpu(kernels::is_log_mixer_size(n), gpu_sizes.c_str())
           .need_on_gpu(sigma.numel() > 0, "at least one value")
           .runs())
    return std::nullopt;
  return FusedSphere::apply(left, right, sigma);
}

}  // namespace geores
