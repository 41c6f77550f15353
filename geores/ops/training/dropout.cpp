#include "geores/ops/training/dropout.h"

#include <ATen/Parallel.h>

#include "geores/ops/run/choice.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

// SplitMix64 (Steele, Lea and Flood, 2014): a word for each number, the top 32 bits decide.
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15, kFirst = 0xBF58476D1CE4E5B9,
                   kSecond = 0x94D049BB133111EB;

uint64_t word_of(uint64_t key, uint64_t number) {
  auto z = key + kGolden * (number + 1);
  z = (z ^ (z >> 30)) * kFirst;
  z = (z ^ (z >> 27)) * kSecond;
  return z ^ (z >> 31);
}

// The same on tensors: int64 wraps as uint64 does, and a shift must not bring the sign along.
Tensor words_of(const Tensor& key, const Tensor& numbers) {
  const auto shifted = [](const Tensor& z, int64_t by) {
    return z.bitwise_right_shift(by).bitwise_and((int64_t{1} << (64 - by)) - 1);
  };
  auto z = key + (numbers + 1) * static_cast<int64_t>(kGolden);
  z = (z ^ shifted(z, 30)) * static_cast<int64_t>(kFirst);
  z = (z ^ shifted(z, 27)) * static_cast<int64_t>(kSecond);
  return z ^ shifted(z, 31);
}

int64_t limit_of(double rate) { return static_cast<int64_t>(rate * 4294967296.0); }

int64_t first_element(const Tensor& x, const Dropout& dropout) {
  return x.size(0) == 0 ? 0 : dropout.first_row * (x.numel() / x.size(0));
}

class CpuDropout : public torch::autograd::Function<CpuDropout> {
  struct Kept {
    uint64_t key;
    int64_t first;
    double rate;

    template <class Self, class F>
    static void tensors(Self&, F&&) {}
  };

  static Tensor apply_mask(const Tensor& values_in, const Kept& kept) {
    const auto x = values_in.contiguous();
    auto y = torch::empty_like(x);
    const auto limit = static_cast<uint64_t>(limit_of(kept.rate));
    for_type_of(x, [&]<class T>(T) {
      const T scale = static_cast<T>(1 / (1 - kept.rate));
      const T* from = values<T>(x);
      T* to = values<T>(y);
      at::parallel_for(0, x.numel(), 16384, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const auto word = word_of(kept.key, static_cast<uint64_t>(kept.first + i));
          to[i] = (word >> 32) < limit ? T(0) : from[i] * scale;
        }
      });
    });
    return y;
  }

 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, int64_t key, int64_t first,
                        double rate) {
    const Kept kept{.key = static_cast<uint64_t>(key), .first = first, .rate = rate};
    save(context, Kept(kept));
    return apply_mask(x, kept);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    return {apply_mask(gradients[0], saved<Kept>(context)), Tensor(), Tensor(), Tensor()};
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

Tensor dropped(const Tensor& x, const Dropout& dropout, int64_t site) {
  if (!dropout.active()) return x;
  if (!Choice("dropout", x).need(x.device().is_cpu(), "a CPU").runs())
    return composed_dropped(x, dropout, site);
  const auto key = word_of(word_of(word_of(0, static_cast<uint64_t>(dropout.seed)),
                                   static_cast<uint64_t>(dropout.step.item<int64_t>())),
                           static_cast<uint64_t>(site));
  return CpuDropout::apply(x, static_cast<int64_t>(key), first_element(x, dropout), dropout.rate);
}

}  // namespace geores
