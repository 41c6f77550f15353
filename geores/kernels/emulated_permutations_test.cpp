#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/mixers/permutations.h"
#include "geores/manifold/permutation.h"

namespace geores::kernels {
namespace {

template <int N>
void compare_mixtures(int64_t tokens) {
  using Set = manifold::AllPermutations<N>;
  constexpr int64_t count = Set::count;
  const auto logits = drawn<double>(tokens * count), dh = drawn<double>(tokens * N * N);
  auto h = zeros<double>(tokens * N * N), dlogits = zeros<double>(tokens * count), wanted_h = h,
       wanted_dlogits = dlogits;
  permutation_mixture_forward(kStream, logits.data(), h.data(), {.tokens = tokens, .n = N});
  permutation_mixture_backward(kStream, logits.data(), dh.data(), dlogits.data(),
                               {.tokens = tokens, .n = N});
  for (int64_t t = 0; t < tokens; ++t) {
    manifold::Matrix<double, N> cotangent{};
    const auto mixture = manifold::permutation_mixture<N>(logits.data() + t * count, Set());
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j) {
        const auto at = static_cast<size_t>((t * N + i) * N + j);
        wanted_h[at] = mixture(i, j);
        cotangent(i, j) = dh[at];
      }
    manifold::permutation_mixture_backward<N>(logits.data() + t * count, Set(), cotangent,
                                              wanted_dlogits.data() + t * count);
  }
  expect_close(h, wanted_h, "mixture of " + std::to_string(N));
  expect_close(dlogits, wanted_dlogits, "its gradient");
}

TEST(EmulatedPermutations, MixturesAndTheirGradientsAreThoseOfTheManifold) {
  compare_mixtures<2>(1);
  compare_mixtures<3>(70);
  compare_mixtures<4>(67);
}

}  // namespace
}  // namespace geores::kernels
#endif
