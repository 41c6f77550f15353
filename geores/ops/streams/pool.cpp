#include "geores/ops/streams/pool.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/kernels/streams/pool.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

kernels::PoolShape pool_shape(const Tensor& x) {
  return {.batch = x.size(0), .length = x.size(1), .width = x.size(2)};
}

class FusedMean : public torch::autograd::Function<FusedMean> {
  struct Kept {
    int64_t length;

    template <class Self, class F>
    static void tensors(Self&, F&&) {}
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input) {
    const auto x = input.contiguous();
    save(context, Kept{.length = x.size(1)});
    auto mean = torch::empty({x.size(0), 1, x.size(2)}, x.options());
    for_type_of(x, [&]<class T>(T) {
      kernels::mean_forward(values<T>(x), values<T>(mean), pool_shape(x));
    });
    return mean;
  }

  // Expanded, not materialised: autograd adds it to other gradients and reads the one row for each
  // token.
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto length = saved<Kept>(context).length;
    return {(gradients[0] / static_cast<double>(length)).expand({-1, length, -1})};
  }
};

class FusedRunningMean : public torch::autograd::Function<FusedRunningMean> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& input) {
    const auto x = input.contiguous();
    auto means = torch::empty_like(x);
    on(x, [&]<class T>(T, auto... cuda_stream) {
      kernels::running_mean_forward(cuda_stream..., values<T>(x), values<T>(means), pool_shape(x));
    });
    return means;
  }

  static tensor_list backward(AutogradContext*, tensor_list gradients) {
    const auto dy = gradients[0].contiguous();
    auto dx = torch::empty_like(dy);
    on(dy, [&]<class T>(T, auto... cuda_stream) {
      kernels::running_mean_backward(cuda_stream..., values<T>(dy), values<T>(dx), pool_shape(dy));
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

Tensor PoolMemory::running_mean(const Tensor& x) {
  if (next_ == seen_.size()) seen_.push_back({torch::zeros_like(x.slice(1, 0, 1)), 0});
  auto& seen = seen_[next_++];
  const auto sums = seen.sum + x.cumsum(1);
  const auto counts = torch::arange(seen.count + 1, seen.count + x.size(1) + 1, x.options());
  seen.sum = sums.slice(1, x.size(1) - 1);
  seen.count += x.size(1);
  return sums / counts.view({-1, 1});
}

Tensor pooled(const Tensor& x, Pool pool, PoolMemory* memory) {
  switch (pool) {
    case Pool::sequence:
      require(memory == nullptr, "pool",
              "sequence needs the whole sequence: it cannot be read in pieces");
      if (KernelChoice("mean_pool", x).need(!on_gpu(x), "a CPU").runs()) return FusedMean::apply(x);
      return x.mean(1, /*keepdim=*/true);
    case Pool::causal:
      if (memory != nullptr) return memory->running_mean(x);
      if (KernelChoice("running_mean", x).runs()) return FusedRunningMean::apply(x);
      return x.cumsum(1) / torch::arange(1, x.size(1) + 1, x.options()).view({-1, 1});
    case Pool::token:
      return x;
  }
  fail("pool", "unknown pool {}", static_cast<int>(pool));
}

}  // namespace geores
