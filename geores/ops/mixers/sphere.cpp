#include "geores/ops/mixers/sphere.h"

#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/sizes.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using namespace fused;

class FusedSphere : public torch::autograd::Function<FusedSphere> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& left, const Tensor& right,
                        const Tensor& sigma) {
    const tensor_list in = {left.contiguous(), right.contiguous(), sigma.contiguous()};
    context->save_for_backward(in);
    const auto n = sigma.size(-1) + 1;
    auto h = torch::empty({sigma.size(0), sigma.size(1), n, n}, sigma.options());
    for_type_of(sigma, [&]<class T>(T) {
      kernels::spectral_sphere_forward<T>({values<T>(in[0]), values<T>(in[1]), values<T>(in[2])},
                                          values<T>(h),
                                          {.tokens = sigma.size(0) * sigma.size(1), .n = n});
    });
    return h;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto in = context->get_saved_variables();
    const auto dh = gradients[0].contiguous();
    tensor_list d;
    for (const auto& tensor : in) d.push_back(torch::empty_like(tensor));
    for_type_of(dh, [&]<class T>(T) {
      kernels::spectral_sphere_backward<T>({values<T>(in[0]), values<T>(in[1]), values<T>(in[2])},
                                           values<T>(dh),
                                           {values<T>(d[0]), values<T>(d[1]), values<T>(d[2])},
                                           {.tokens = dh.size(0) * dh.size(1), .n = dh.size(-1)});
    });
    return d;
  }
};

}  // namespace

bool spectral_sphere_runs_fused(const Tensor& sigma) {
  const auto n = sigma.size(-1) + 1;
  return runs_cpu_kernel(sigma) && n >= 3 && kernels::is_compiled_size(n);
}

Tensor fused_spectral_sphere(const Tensor& left, const Tensor& right, const Tensor& sigma) {
  return FusedSphere::apply(left, right, sigma);
}

}  // namespace geores
