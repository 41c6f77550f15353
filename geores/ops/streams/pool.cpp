#include "geores/ops/streams/pool.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/kernels/streams/pool.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using namespace fused;

kernels::PoolShape pool_shape(const Tensor& x) {
  return {.batch = x.size(0), .length = x.size(1), .width = x.size(2)};
}

class FusedMean : public torch::autograd::Function<FusedMean> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input) {
    const auto x = input.contiguous();
    context->saved_data["length"] = x.size(1);
    auto mean = torch::empty({x.size(0), 1, x.size(2)}, x.options());
    for_type_of(x, [&]<class T>(T) {
      kernels::mean_forward(values<T>(x), values<T>(mean), pool_shape(x));
    });
    return mean;
  }

  // Expanded, not written out: whoever adds it to other gradients reads the one row again and
  // again.
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto length = context->saved_data["length"].toInt();
    return {(gradients[0] / static_cast<double>(length)).expand({-1, length, -1})};
  }
};

class FusedRunningMean : public torch::autograd::Function<FusedRunningMean> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& input) {
    const auto x = input.contiguous();
    auto means = torch::empty_like(x);
    on(x, [&]<class T>(T, auto... place) {
      kernels::running_mean_forward(place..., values<T>(x), values<T>(means), pool_shape(x));
    });
    return means;
  }

  static tensor_list backward(AutogradContext*, tensor_list gradients) {
    const auto dy = gradients[0].contiguous();
    auto dx = torch::empty_like(dy);
    on(dy, [&]<class T>(T, auto... place) {
      kernels::running_mean_backward(place..., values<T>(dy), values<T>(dx), pool_shape(dy));
    });
    return {dx};
  }
};

}  // namespace

const std::vector<std::string>& pool_names() {
  static const std::vector<std::string> names = {"sequence", "causal", "token"};
  return names;
}

Pool pool_from(const std::string& name) {
  const auto& names = pool_names();
  const auto found = std::find(names.begin(), names.end(), name);
  require(found != names.end(), "pool", "must be sequence, causal or token, got '{}'", name);
  return static_cast<Pool>(found - names.begin());
}

Tensor StreamMemory::running_mean(const Tensor& x) {
  if (next_ == places_.size()) places_.push_back({torch::zeros_like(x.slice(1, 0, 1)), 0});
  auto& place = places_[next_++];
  const auto sums = place.sum + x.cumsum(1);
  const auto counts = torch::arange(place.count + 1, place.count + x.size(1) + 1, x.options());
  place.sum = sums.slice(1, x.size(1) - 1);
  place.count += x.size(1);
  return sums / counts.view({-1, 1});
}

Tensor pooled(const Tensor& x, Pool pool, StreamMemory* memory) {
  switch (pool) {
    case Pool::sequence:
      require(memory == nullptr, "pool",
              "sequence needs the whole sequence: it cannot be streamed");
      if (runs_cpu_kernel(x)) return FusedMean::apply(x);
      return x.mean(1, /*keepdim=*/true);
    case Pool::causal:
      if (memory != nullptr) return memory->running_mean(x);
      if (runs_cpu_kernel(x) || runs_cuda_kernel(x)) return FusedRunningMean::apply(x);
      return x.cumsum(1) / torch::arange(1, x.size(1) + 1, x.options()).view({-1, 1});
    case Pool::token:
      return x;
  }
  fail("pool", "unknown pool {}", static_cast<int>(pool));
}

}  // namespace geores
