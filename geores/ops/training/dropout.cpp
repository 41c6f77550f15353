#include "geores/ops/training/dropout.h"

#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

using kernels::SplitMix;

// SplitMix64 on tensors: int64 wraps like uint64, and a shift must not extend the sign.
Tensor words_of(const Tensor& key, const Tensor& numbers) {
  const auto shifted = [](const Tensor& z, int64_t by) {
    return z.bitwise_right_shift(by).bitwise_and((int64_t{1} << (64 - by)) - 1);
  };
  auto z = key + (numbers + 1) * static_cast<int64_t>(SplitMix::kGolden);
  z = (z ^ shifted(z, 30)) * static_cast<int64_t>(SplitMix::kFirst);
  z = (z ^ shifted(z, 27)) * static_cast<int64_t>(SplitMix::kSecond);
  return z ^ shifted(z, 31);
}

int64_t limit_of(double rate) { return static_cast<int64_t>(rate * 4294967296.0); }

int64_t first_element(const Tensor& x, const Dropout& dropout) {
  return x.size(0) == 0 ? 0 : dropout.first_row * (x.numel() / x.size(0));
}

class FusedDropout : public torch::autograd::Function<FusedDropout> {
  struct Kept {
    Tensor step;  // the mask points to it
    kernels::DropoutMask mask;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.step);
    }
  };

  static Tensor apply_mask(const Tensor& input, const kernels::DropoutMask& mask) {
    const auto x = input.contiguous();
    auto y = torch::empty_like(x);
    on_activations(x, [&]<class A>(A, auto... stream) {
      kernels::drop_elements<A>(stream..., values<A>(x), values<A>(y), x.numel(), mask);
    });
    return y;
  }

 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& step,
                        const kernels::DropoutMask& mask) {
    save(context, Kept{.step = step, .mask = mask});
    return apply_mask(x, mask);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    return {apply_mask(gradients[0], saved<Kept>(context).mask), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor composed_dropped(const Tensor& x, const Dropout& dropout, int64_t site) {
  const auto key = words_of(words_of(words_of(torch::zeros_like(dropout.step),
                                              torch::full_like(dropout.step, dropout.seed)),
                                     dropout.step),
                            torch::full_like(dropout.step, site));
  const auto first = first_element(x, dropout);
  const auto numbers = torch::arange(first, first + x.numel(), dropout.step.options());
  const auto top = words_of(key, numbers).bitwise_right_shift(32).bitwise_and(int64_t{0xFFFFFFFF});
  const auto kept = (top >= limit_of(dropout.rate)).to(x.scalar_type()).view(x.sizes());
  return x * kept / (1 - dropout.rate);
}

kernels::DropoutMask mask_of(const Tensor& x, const Dropout& dropout, int64_t site) {
  return {.step = values<int64_t>(dropout.step),
          .seed_word = SplitMix::word(0, static_cast<uint64_t>(dropout.seed)),
          .site = static_cast<uint64_t>(site),
          .first = static_cast<uint64_t>(first_element(x, dropout)),
          .limit = static_cast<uint64_t>(limit_of(dropout.rate)),
          .scale = 1 / (1 - dropout.rate)};
}

Tensor dropped(const Tensor& x, const Dropout& dropout, int64_t site) {
  if (!dropout.active()) return x;
  if (!KernelChoice::state("dropout", x)
           .need(dropout.step.device() == x.device(),
                 "the step's number on the device of the values")
           .runs())
    return composed_dropped(x, dropout, site);
  return FusedDropout::apply(x, dropout.step, mask_of(x, dropout, site));
}

}  // namespace geores
