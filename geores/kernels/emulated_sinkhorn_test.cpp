#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/mixers/quad_log_sinkhorn.h"
#include "geores/manifold/sinkhorn.h"

namespace geores::kernels {
namespace {

TEST(EmulatedSinkhorn, FourLanesEqualTheManifold) {
  constexpr int64_t kTokens = 37;
  auto logits = drawn<double>(kTokens * 16);
  for (auto& x : logits) x *= 6;
  for (const bool rows_last : {false, true})
    for (const double bound : {0.0, 5.0}) {
      const LogSinkhorn<double> spec{
          .iterations = 7, .bound = bound, .unrolled = false, .rows_last = rows_last};
      auto p = zeros<double>(kTokens * 16), wanted = p;
      quad_log_sinkhorn_forward(kStream, logits.data(), spec, p.data(), kTokens);
      for (int64_t t = 0; t < kTokens; ++t) {
        manifold::Matrix<double, 4> l{};
        const auto at = [&](int i, int j) {
          return static_cast<size_t>(t * 16 + (rows_last ? j * 4 + i : i * 4 + j));
        };
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j) l(i, j) = logits[at(i, j)];
        const auto m =
            manifold::sinkhorn(l, manifold::SinkhornOptions<double>{
                                      .iterations = 7, .clamp = bound, .bounded = bound > 0});
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j) wanted[at(i, j)] = m(i, j);
      }
      expect_close(p, wanted, "sinkhorn");
    }
}

}  // namespace
}  // namespace geores::kernels
#endif
