#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "geores/kernels/sizes.h"
#include "geores/kernels/streams/streams.h"
#include "geores/manifold/sigmoid_route.h"
#include "geores/ops/inference/into.h"
#include "geores/ops/mixers/constants.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/routed/forms/forms.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using fused::for_type_of;
using fused::values;

// The routes of one token of each of B sequences, computed from its projections into tensors that stay.
class StepRoutes {
 public:
  // nullopt if no kernel supports n streams or routes of this kind. `like` has the type of values.
  static std::optional<StepRoutes> make(const RoutedSpec& spec, int64_t batch, const Tensor& like);

  StepRoutes(StepRoutes&&) = default;  // copies would share their tensors

  void update(const Tensor& raw) { make_(raw, *this); }

  Tensor res, read, write;  // (B, n, n), (B, n), (B, n)

 private:
  using Make = std::function<void(const Tensor& raw, StepRoutes& to)>;
  StepRoutes(int64_t n, int64_t batch, const Tensor& like);

  Make make_;
};

// Routes of the first n of raw's columns, and of the next n.
void read_and_write(const Tensor& raw, StepRoutes& to) {
  const auto n = to.read.size(1), count = raw.size(1);
  for_type_of(raw, [&]<class T>(T) {
    const T* from = values<T>(raw);
    T *read = values<T>(to.read), *write = values<T>(to.write);
    for (int64_t b = 0; b < raw.size(0); ++b, from += count, read += n, write += n)
      for (int64_t i = 0; i < n; ++i) {
        read[i] = manifold::read_route(from[i]);
        write[i] = manifold::write_route(from[n + i]);
      }
  });
}

// Copies the columns of raw from `first` on that a mixer's kernel reads, contiguously.
class RawColumns {
 public:
  RawColumns(const Tensor& like, int64_t batch, int64_t first, int64_t size)
      : first_(first), values_(torch::empty({batch, size}, like.options())) {}

  const Tensor& of(const Tensor& raw) {
    const auto size = values_.size(1);
    for_type_of(raw, [&]<class T>(T) {
      for (int64_t b = 0; b < raw.size(0); ++b)
        std::copy_n(values<T>(raw) + b * raw.size(1) + first_, size, values<T>(values_) + b * size);
    });
    return values_;
  }

  const Tensor& tanh_of(const Tensor& raw) {
    of(raw);
    for_type_of(raw, [&]<class T>(T) {
      T* x = values<T>(values_);
      std::transform(x, x + values_.numel(), x, [](T y) { return std::tanh(y); });
    });
    return values_;
  }

  const Tensor& softmax_of(const Tensor& raw) {
    of(raw);
    for_type_of(raw, [&]<class T>(T) {
      const auto size = values_.size(1);
      for (T *x = values<T>(values_), *end = x + values_.numel(); x != end; x += size) {
        const T largest = *std::max_element(x, x + size);
        T sum = 0;
        for (int64_t i = 0; i < size; ++i) sum += x[i] = std::exp(x[i] - largest);
        for (int64_t i = 0; i < size; ++i) x[i] /= sum;
      }
    });
    return values_;
  }

 private:
  int64_t first_;
  Tensor values_;
};

kernels::MixerShape shape_of(const StepRoutes& routes) {
  return {.tokens = routes.read.size(0), .n = routes.read.size(1)};
}

// The function that computes res from raw, or null where n has no kernel.
using Mix = std::function<void(const Tensor& raw, StepRoutes& to)>;

struct MakeMix {
  int64_t n, batch;
  const Tensor& like;

  // Reads the columns after those of read and write.
  RawColumns columns(int64_t first, int64_t size) const {
    return {like, batch, 2 * n + first, size};
  }

  // Without a kernel here, or with read and write that are not sigmoids.
  template <class Other>
  Mix operator()(const Other&) const {
    return {};
  }

  Mix operator()(const IdentityRouting&) const {
    return [](const Tensor&, StepRoutes&) {};
  }

  Mix operator()(const FreeRouting&) const {
    return [logits = columns(0, n * n)](const Tensor& raw, StepRoutes& to) mutable {
      into::copy(logits.of(raw), to.res);
    };
  }

  Mix operator()(const GuardedRouting& routing) const {
    return (*this)(SinkhornRouting{guarded_sinkhorn_spec(routing.iterations)});
  }

  Mix operator()(const SinkhornRouting& routing) const {
    if (!kernels::is_compiled_size(n)) return {};
    return [logits = columns(0, n * n), spec = sinkhorn_kernel(routing.spec)](
               const Tensor& raw, StepRoutes& to) mutable {
      for_type_of(raw, [&]<class T>(T) {
        kernels::sinkhorn_forward(values<T>(logits.of(raw)), spec, values<T>(to.res), shape_of(to));
      });
    };
  }

  Mix operator()(const PermutationRouting&) const {
    const auto entries =
        all_permutations(n).flatten(1).t().to(like.options()).contiguous();  // (n², n!)
    return [logits = columns(0, entries.size(1)), entries,
            flat = torch::empty({batch, n * n}, like.options())](const Tensor& raw,
                                                                 StepRoutes& to) mutable {
      into::linear(logits.softmax_of(raw), entries, {}, flat);
      into::copy(flat, to.res);
    };
  }

  Mix operator()(const SphereRouting& routing) const {
    if (n < 3 || !kernels::is_compiled_size(n) || routing.left_amplitude.defined()) return {};
    const auto entries = (n - 1) * (n - 2) / 2;
    return [left = columns(0, entries), right = columns(entries, entries),
            singular = columns(2 * entries, n - 1)](const Tensor& raw, StepRoutes& to) mutable {
      for_type_of(raw, [&]<class T>(T) {
        kernels::spectral_sphere_forward<T>(
            {values<T>(left.tanh_of(raw)), values<T>(right.tanh_of(raw)),
             values<T>(singular.tanh_of(raw))},
            values<T>(to.res), shape_of(to));
      });
    };
  }
};

std::function<void(const Tensor& raw, StepRoutes& to)> cayley_maker(const CayleyRouting& routing) {
  return [routing](const Tensor& raw, StepRoutes& to) {
    for_type_of(raw, [&]<class T>(T) {
      kernels::cayley_routes_forward<T>(values<T>(raw),
                                        {T(routing.temperature), T(routing.alpha),
                                         routing.exact ? -1 : static_cast<int>(routing.iterations)},
                                        values<T>(to.res), values<T>(to.read), values<T>(to.write),
                                        shape_of(to));
    });
  };
}

std::function<void(const Tensor& raw, StepRoutes& to)> tanh_maker(const TanhRoutes& parameters) {
  const auto n = parameters.pre.numel();
  const auto kept = [](const Tensor& x) { return x.detach().contiguous(); };
  const TanhRoutes p{.scale = kept(parameters.scale),
                     .post_scale = kept(parameters.post_scale),
                     .pre = kept(parameters.pre),
                     .res = kept(parameters.res),
                     .post = kept(parameters.post)};
  return [p, n](const Tensor& raw, StepRoutes& to) {
    for_type_of(raw, [&]<class T>(T) {
      const T scale = *values<T>(p.scale), post_scale = *values<T>(p.post_scale);
      const T *pre = values<T>(p.pre), *fixed = values<T>(p.res), *post = values<T>(p.post);
      const T* from = values<T>(raw);
      for (int64_t b = 0; b < to.read.size(0); ++b) {
        T *read = values<T>(to.read) + b * n, *write = values<T>(to.write) + b * n,
          *res = values<T>(to.res) + b * n * n;
        for (int64_t j = 0; j < n; ++j, from += n + 2) {
          read[j] = scale * std::tanh(from[0]) + pre[j];
          for (int64_t i = 0; i < n; ++i)
            res[i * n + j] = scale * std::tanh(from[1 + i]) + fixed[i * n + j];
          write[j] = post_scale * std::tanh(from[n + 1]) + post[j];
        }
      }
    });
  };
}

StepRoutes::StepRoutes(int64_t n, int64_t batch, const Tensor& like)
    : res(torch::eye(n, like.options()).repeat({batch, 1, 1})),
      read(torch::zeros({batch, n}, like.options())),
      write(torch::zeros({batch, n}, like.options())) {}

std::optional<StepRoutes> StepRoutes::make(const RoutedSpec& spec, int64_t batch,
                                           const Tensor& like) {
  const auto n = spec.streams;
  if (n < 1 || n > kernels::kMostStreams) return std::nullopt;
  StepRoutes routes(n, batch, like);
  if (const auto* fixed = std::get_if<FixedRouting>(&spec.routing)) {
    routes.res.copy_(fixed->routes.res.expand_as(routes.res));
    routes.read.copy_(fixed->routes.read.expand_as(routes.read));
    routes.write.copy_(fixed->routes.write.expand_as(routes.write));
    return routes;
  }
  if (const auto* cayley = std::get_if<CayleyRouting>(&spec.routing)) {
    if (!kernels::is_compiled_size(n)) return std::nullopt;
    routes.make_ = cayley_maker(*cayley);
    return routes;
  }
  if (const auto* tanh = std::get_if<TanhRouting>(&spec.routing)) {
    routes.make_ = tanh_maker(tanh->routes);
    return routes;
  }
  const auto mix = std::visit(MakeMix{n, batch, like}, spec.routing);
  if (!mix) return std::nullopt;
  routes.make_ = [mix](const Tensor& raw, StepRoutes& to) {
    read_and_write(raw, to);
    mix(raw, to);
  };
  return routes;
}

// Computes raw values from the state: each row of this many values is normalized and projected
// separately.
struct Projection {
  LinearMap map;  // undefined: routes are fixed
  NormSpec norm{.layer = false};
  int64_t row = 0;
};

class RoutedStep final : public TokenStep {
 public:
  RoutedStep(StepRoutes routes, Projection projection, const Tensor& read_weight, int64_t width,
             int64_t batch)
      : routes_(std::move(routes)),
        projection_(std::move(projection)),
        read_weight_(read_weight.detach().contiguous()),
        read_(buffer(batch, read_weight.numel())),
        mixed_(buffer(batch, width)) {
    if (!projection_.map.weight.defined()) return;
    normalized_ = buffer(batch, width);
    rows_ = normalized_.view({-1, projection_.row});
    raw_ = buffer(rows_.size(0), projection_.map.weight.size(0));
  }

  const Tensor& read(const Tensor& x) override {
    if (raw_.defined()) {
      into::normalize(x, projection_.row, projection_.norm, normalized_);
      into::linear(rows_, projection_.map.weight, projection_.map.bias, raw_);
      routes_.update(raw_);
    }
    into::collect_and_norm(routes_.read, x, read_weight_, read_);
    return read_;
  }

  void write(const Tensor& y, Tensor& x) override {
    into::mix_and_write(routes_.res, x, routes_.write, y, mixed_);
    into::copy(mixed_, x);
  }

 private:
  Tensor buffer(int64_t rows, int64_t width) const {
    return torch::zeros({rows, width}, read_weight_.options());
  }

  StepRoutes routes_;
  Projection projection_;
  Tensor read_weight_;
  Tensor read_, mixed_;
  // rows_ views normalized_ by projected rows. All are undefined if routes are fixed.
  Tensor normalized_, rows_, raw_;
};

}  // namespace

std::unique_ptr<TokenStep> step_form(const RoutedSpec& spec, int64_t batch) {
  torch::NoGradGuard no_grad;
  if (spec.read_norm.kind != ReadNormSpec::Kind::layer || spec.read_offset != 0) return nullptr;
  auto routes = StepRoutes::make(spec, batch, spec.read_norm.weight);
  if (!routes) return nullptr;
  const auto width = spec.streams * spec.width;
  Projection projection;
  if (std::holds_alternative<TanhRouting>(spec.routing)) {  // of each stream, without bias
    std::vector<Tensor> weights;
    for (const auto& p : spec.projections) weights.push_back(p.weight);
    projection = {.map = {torch::cat(weights), {}}, .norm = spec.norm, .row = spec.width};
  } else if (!spec.projections.empty()) {
    const auto packed = side_by_side(spec.projections);
    projection = {
        .map = folded_into(spec.norm, packed.weight, packed.bias), .norm = spec.norm, .row = width};
  }
  return std::make_unique<RoutedStep>(std::move(*routes), std::move(projection),
                                      spec.read_norm.weight, width, batch);
}

}  // namespace geores
