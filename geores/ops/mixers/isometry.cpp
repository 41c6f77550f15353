#include "geores/ops/mixers/isometry.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/kernels/pooled/isometries.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

class FusedIsometry : public torch::autograd::Function<FusedIsometry> {
  struct Kept {
    Tensor raw;
    kernels::IsometryShape shape;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.raw);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, int64_t factor, int64_t n,
                        int64_t count) {
    const auto raw = input.contiguous();
    const kernels::IsometryShape shape{
        .factor = static_cast<IsometryFactor>(factor), .n = n, .count = count};
    save(context, Kept{.raw = raw, .shape = shape});
    auto sizes = raw.sizes().vec();
    sizes.back() = n;
    sizes.push_back(n);
    auto g = torch::empty(sizes, raw.options());
    on(raw, [&]<class T>(T, auto... cuda_stream) {
      kernels::isometries_forward(cuda_stream..., shape, values<T>(raw), values<T>(g),
                                  g.numel() / (n * n));
    });
    return g;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dg = gradients[0].contiguous();
    const auto draw = torch::empty_like(s.raw);
    on(dg, [&]<class T>(T, auto... cuda_stream) {
      kernels::isometries_backward(cuda_stream..., s.shape, values<T>(s.raw), values<T>(dg),
                                   values<T>(draw), dg.numel() / (s.shape.n * s.shape.n));
    });
    return {draw, Tensor(), Tensor(), Tensor()};
  }
};

// p/‖p‖; zero where p is zero.
Tensor direction(const Tensor& p) {
  const auto length = p.norm(2, {-1}, /*keepdim=*/true);
  return p / torch::where(length > 0, length, torch::ones_like(length));
}

Tensor dyad(const Tensor& a, const Tensor& b) { return a.unsqueeze(-1) * b.unsqueeze(-2); }

Tensor complex_reflection(const Tensor& k, const Tensor& phase) {
  const auto parts = k.chunk(2, -1);  // real, imaginary
  const auto turned = torch::cat({-parts[1], parts[0]}, -1);
  const auto c = torch::cos(phase).unsqueeze(-1), s = torch::sin(phase).unsqueeze(-1);
  return identity_like(k, k.size(-1)) - (1 - c) * (dyad(k, k) + dyad(turned, turned)) +
         s * (dyad(turned, k) - dyad(k, turned));
}

Tensor skew_from_entries(const Tensor& entries, int64_t n) {
  const auto at = torch::triu_indices(n, n, 1, entries.options().dtype(torch::kLong));
  auto shape = entries.sizes().vec();
  shape.back() = n * n;
  const auto indices = (at[0] * n + at[1]).expand_as(entries);
  const auto upper = torch::zeros(shape, entries.options()).scatter(-1, indices, entries);
  return skew(upper.unflatten(-1, std::vector<int64_t>{n, n}));
}

Tensor isometry_factor(const Tensor& raw, IsometryFactor factor, int64_t n) {
  switch (factor) {
    case IsometryFactor::reflections:
      return householder(direction(raw.slice(-1, 0, n)))
          .matmul(householder(direction(raw.slice(-1, n))));
    case IsometryFactor::unitary:
      return complex_reflection(direction(raw.slice(-1, 0, n)), raw.slice(-1, n));
    case IsometryFactor::cayley:
      return cayley_solve(0.5 * skew_from_entries(raw, n));
  }
  fail("isometry", "unknown factor {}", static_cast<int>(factor));
}

}  // namespace

const std::vector<std::string>& isometry_names() {
  static const std::vector<std::string> names = {"reflections", "unitary", "cayley"};
  return names;
}

IsometryFactor isometry_from(const std::string& name) {
  const auto& names = isometry_names();
  const auto found = std::find(names.begin(), names.end(), name);
  require(found != names.end(), "isometry", "must be reflections, unitary or cayley, got '{}'",
          name);
  return static_cast<IsometryFactor>(found - names.begin());
}

Tensor isometry(const Tensor& raw, IsometryFactor factor, int64_t n) {
  require(n >= 2, "isometry", "needs at least 2 streams, got {}", n);
  require(n % 2 == 0 || factor != IsometryFactor::unitary, "isometry",
          "unitary needs an even number of streams, got {}", n);
  const int64_t size = manifold::generators_of(factor, static_cast<int>(n));
  require(raw.size(-1) >= size && raw.size(-1) % size == 0, "isometry",
          "{} generators are not a multiple of the {} of one factor", raw.size(-1), size);
  const auto count = raw.size(-1) / size;
  KernelChoice choice("isometry", raw);
  if (need_mixer(choice, n).runs())
    return FusedIsometry::apply(raw, static_cast<int64_t>(factor), n, count);
  const auto wide = raw.to(torch::kFloat64);
  auto product = isometry_factor(wide.slice(-1, 0, size), factor, n);
  for (int64_t i = 1; i < count; ++i)
    product = product.matmul(isometry_factor(wide.slice(-1, i * size, (i + 1) * size), factor, n));
  return product.to(raw.scalar_type());
}

}  // namespace geores
