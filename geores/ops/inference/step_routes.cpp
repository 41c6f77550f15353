#include "geores/ops/inference/step_routes.h"

#include <algorithm>
#include <cmath>

#include "geores/kernels/sizes.h"
#include "geores/kernels/streams/streams.h"
#include "geores/ops/inference/into.h"
#include "geores/ops/mixers/constants.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using fused::for_type_of;
using fused::values;

template <class T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

// read = σ(the first n of raw's columns), write = 2σ(the next n)
void read_and_write(const Tensor& raw, StepRoutes& to) {
  const auto n = to.read.size(1), count = raw.size(1);
  for_type_of(raw, [&]<class T>(T) {
    const T* from = values<T>(raw);
    T *read = values<T>(to.read), *write = values<T>(to.write);
    for (int64_t b = 0; b < raw.size(0); ++b, from += count, read += n, write += n)
      for (int64_t i = 0; i < n; ++i) {
        read[i] = sigmoid(from[i]);
        write[i] = 2 * sigmoid(from[n + i]);
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

  // Their read and write are not sigmoids.
  Mix operator()(const CayleyRouting&) const { return {}; }
  Mix operator()(const StreamRouting&) const { return {}; }

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

  Mix operator()(const SphereRouting&) const {
    if (n < 3 || !kernels::is_compiled_size(n)) return {};
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

bool has_kernels(int64_t n) { return n >= 1 && n <= kernels::kMostStreams; }

}  // namespace

StepRoutes::StepRoutes(int64_t n, int64_t batch, const Tensor& like)
    : res(torch::eye(n, like.options()).repeat({batch, 1, 1})),
      read(torch::zeros({batch, n}, like.options())),
      write(torch::zeros({batch, n}, like.options())) {}

std::optional<StepRoutes> StepRoutes::make(const Routing& routing, int64_t n, int64_t batch,
                                           const Tensor& like) {
  if (!has_kernels(n)) return std::nullopt;
  StepRoutes routes(n, batch, like);
  if (const auto* cayley = std::get_if<CayleyRouting>(&routing)) {
    if (!kernels::is_compiled_size(n)) return std::nullopt;
    routes.make_ = cayley_maker(*cayley);
    return routes;
  }
  const auto mix = std::visit(MakeMix{n, batch, like}, routing);
  if (!mix) return std::nullopt;
  routes.make_ = [mix](const Tensor& raw, StepRoutes& to) {
    read_and_write(raw, to);
    mix(raw, to);
  };
  return routes;
}

std::optional<StepRoutes> StepRoutes::of_tanh(const TanhRoutes& parameters, int64_t batch) {
  const auto n = parameters.pre.numel();
  if (!has_kernels(n)) return std::nullopt;
  StepRoutes routes(n, batch, parameters.pre);
  const auto kept = [](const Tensor& x) { return x.detach().contiguous(); };
  const TanhRoutes p{.scale = kept(parameters.scale),
                     .post_scale = kept(parameters.post_scale),
                     .pre = kept(parameters.pre),
                     .res = kept(parameters.res),
                     .post = kept(parameters.post)};
  routes.make_ = [p, n](const Tensor& raw, StepRoutes& to) {
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
  return routes;
}

std::optional<StepRoutes> StepRoutes::fixed(const Routes& routes, int64_t batch) {
  if (!has_kernels(routes.read.numel())) return std::nullopt;
  StepRoutes result(routes.read.numel(), batch, routes.read);
  torch::NoGradGuard no_grad;
  result.res.copy_(routes.res.expand_as(result.res));
  result.read.copy_(routes.read.expand_as(result.read));
  result.write.copy_(routes.write.expand_as(result.write));
  return result;
}

}  // namespace geores
