#include "geores/ops/mixers/sphere.h"

#include <vector>

#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/sizes.h"
#include "geores/ops/mixers/cayley.h"
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

bool runs_fused(const Tensor& sigma) {
  const auto n = sigma.size(-1) + 1;
  static const auto cpu_sizes = numbers_that(kernels::is_compiled_size) + " streams",
                    gpu_sizes = numbers_that(kernels::is_wide_stream_count) + " streams";
  return KernelChoice("spectral_sphere", sigma)
      .need(n >= 3, "at least 3 streams")
      .need_on_cpu(kernels::is_compiled_size(n), cpu_sizes.c_str())
      .need_on_gpu(kernels::is_wide_stream_count(n), gpu_sizes.c_str())
      .need_on_gpu(sigma.numel() > 0, "at least one value")
      .runs();
}

}  // namespace

Tensor spectral_sphere(const Tensor& left, const Tensor& right, const Tensor& sigma,
                       const Tensor& helmert, const Tensor& skew_basis) {
  const auto m = sigma.size(-1), n = m + 1;
  auto u = helmert.to(sigma.dtype()), v = u;
  if (skew_basis.defined()) {
    if (runs_fused(sigma)) return FusedSphere::apply(left, right, sigma);
    const auto rotated = [&](const Tensor& entries) {
      const auto skewed =
          entries.matmul(skew_basis.to(entries.dtype())).unflatten(-1, std::vector<int64_t>{m, m});
      return helmert.to(entries.dtype()).matmul(cayley_solve(skewed));
    };
    u = rotated(left);
    v = rotated(right);
  }
  const auto mean = torch::full({n, n}, 1.0 / static_cast<double>(n), sigma.options());
  return mean + (u * sigma.unsqueeze(-2)).matmul(v.transpose(-1, -2));
}

Tensor upper_triangle_to_skew(int64_t m) {
  auto basis = torch::zeros({m * (m - 1) / 2, m, m}, torch::kFloat64);
  int64_t entry = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = i + 1; j < m; ++j, ++entry) {
      basis[entry][i][j] = 1.0;
      basis[entry][j][i] = -1.0;
    }
  return basis.flatten(1);
}

}  // namespace geores
