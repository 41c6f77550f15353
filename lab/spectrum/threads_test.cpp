#include "lab/spectrum/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "geores/spectral/chain_equation.h"
#include "geores/spectral/density.h"
#include "geores/spectral/mixer.h"
#include "geores/spectral/monte_carlo.h"
#include "geores/testing/testing.h"

namespace geores::spectral {
namespace {

TEST(Threads, RunEveryJobOnce) {
  for (const int threads : {0, 1, 3, 50}) {
    std::vector<std::atomic<int>> runs(20);
    on_threads(threads)(20, [&](int i) { ++runs[i]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1) << threads;
  }
  on_threads(2)(0, [](int) { FAIL(); });
}

TEST(Threads, PassTheFirstExceptionOn) {
  EXPECT_THROW(on_threads(3)(100,
                             [](int i) {
                               if (i == 7) throw std::runtime_error("seven");
                             }),
               std::runtime_error);
}

TEST(Threads, DoNotChangeASample) {
  const auto chain = make_chain({draw_mixer(Mixer::shc, 3, 1)}, 3, 0.2);
  const MonteCarlo how{.samples = 9, .block = 5};
  const auto one = sample_singular_values(chain, how).singular_values;
  EXPECT_EQ(one, sample_singular_values(chain, how, on_threads(4)).singular_values);
  EXPECT_EQ(one, sample_singular_values(chain, how, on_threads(0)).singular_values);
}

TEST(Threads, DoNotChangeADensity) {
  const auto make = chain_resolvent(make_chain({draw_mixer(Mixer::gaussian, 4, 3)}, 5, 0.2));
  const auto grid = uniform_grid(0, 2, 100);
  const auto one = invert(make, grid, 0.02);
  EXPECT_EQ(one.rho, invert(make, grid, 0.02, on_threads(3)).rho);
  EXPECT_EQ(one.rho, invert(make, grid, 0.02, on_threads(0)).rho);
}

TEST(Threads, BringTheRefusalOfAJob) {
  const auto chain = make_chain({draw_mixer(Mixer::bistochastic, 4, 1)}, 5, 0.05);
  const auto grid = uniform_grid(0, 2, 200);
  EXPECT_NE(refusal([&] {
              invert(chain_resolvent(chain, {.max_iterations = 3}), grid, 0.02, on_threads(2));
            }),
            "");
}

}  // namespace
}  // namespace geores::spectral
