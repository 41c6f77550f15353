#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/mixers/sinkhorn.h"

namespace geores::kernels {
namespace {

// One thread or four lanes for each token, both gradients, both orders, every kind of guard.
TEST(EmulatedSinkhorn, EqualsTheCpus) {
  constexpr int64_t kTokens = 37;
  for (const int64_t n : {2, 3, 4, 8})
    for (const auto& options :
         {manifold::SinkhornOptions{.iterations = 35, .bound = 0},
          manifold::SinkhornOptions{.iterations = 3, .bound = 5},
          manifold::SinkhornOptions{3, 0, 1e-2}, manifold::SinkhornOptions{3, 0, 1e-2, true}})
      for (const bool rows_last : {false, true})
        for (const bool unrolled : {false, true}) {
          const Sinkhorn spec{options, unrolled, rows_last};
          const MixerShape shape{kTokens, n};
          auto logits = drawn<double>(kTokens * n * n);
          for (auto& x : logits) x *= 6;
          const auto dp = drawn<double>(kTokens * n * n);
          auto p = zeros<double>(kTokens * n * n), wanted = p, d = p, wanted_d = p;
          sinkhorn_forward(kStream, logits.data(), spec, p.data(), shape);
          sinkhorn_forward(logits.data(), spec, wanted.data(), shape);
          expect_close(p, wanted, "sinkhorn");
          sinkhorn_backward(kStream, logits.data(), spec, p.data(), dp.data(), d.data(), shape);
          sinkhorn_backward(logits.data(), spec, p.data(), dp.data(), wanted_d.data(), shape);
          expect_close(d, wanted_d, "gradient");
        }
}

}  // namespace
}  // namespace geores::kernels
#endif
