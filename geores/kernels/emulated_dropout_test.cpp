// The GPU's kernels of dropout, emulated, against those of the CPU, which ops/training/dropout_test.cpp
// compares with their definition.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include <bit>

#include "geores/kernels/attention/dropped_softmax.h"
#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/training/dropout.h"

namespace geores::kernels {
namespace {

constexpr double kRate = 0.3;

struct MaskPosition {
  int64_t step, site, first;
};
const MaskPosition kPositions[] = {{0, 0, 0}, {5, 9, 0}, {4999, 18, 77}, {1, 2, int64_t{3} << 32}};

DropoutMask mask_at(const MaskPosition& position) {
  return {.step = &position.step,
          .seed_word = SplitMix::word(0, 7),
          .site = static_cast<uint64_t>(position.site),
          .first = static_cast<uint64_t>(position.first),
          .limit = static_cast<uint64_t>(kRate * 4294967296.0),
          .scale = 1 / (1 - kRate)};
}

std::string text(const MaskPosition& position, int64_t size) {
  return std::to_string(size) + " values, step " + std::to_string(position.step) + ", site " +
         std::to_string(position.site) + ", first " + std::to_string(position.first);
}

// `from`: where the values begin, which is at a multiple of 16 bytes or not.
template <class T>
void compare_dropped(const MaskPosition& position, int64_t size, int64_t from) {
  const auto x = drawn<T>(size + from);
  auto y = zeros<T>(size + from), wanted = y;
  const auto mask = mask_at(position);
  drop_elements(kStream, x.data() + from, y.data() + from, size, mask);
  drop_elements(x.data() + from, wanted.data() + from, size, mask);
  EXPECT_EQ(y, wanted) << text(position, size);
}

TEST(EmulatedDropout, DropsAndScalesAsTheCpuDoes) {
  for (const auto& position : kPositions) {
    for (const int64_t size : {1, 3, 4, 1025, 20004})  // of the last, threads take several runs
      for (const int64_t from : {0, 1}) {
        compare_dropped<float>(position, size, from);
        compare_dropped<double>(position, size, from);
      }
  }
}

TEST(EmulatedDropout, InBfloat16IsThatOfFloat32Rounded) {
  for (const auto& position : kPositions)
    for (const int64_t size : {1, 7, 8, 1032}) {
      auto x = drawn<float>(size), wanted = zeros<float>(size);
      std::vector<BFloat16> half(x.size()), y(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        half[i].bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(x[i]) >> 16);
        x[i] = std::bit_cast<float>(static_cast<uint32_t>(half[i].bits) << 16);
      }
      drop_elements(kStream, half.data(), y.data(), size, mask_at(position));
      drop_elements(x.data(), wanted.data(), size, mask_at(position));
      for (size_t i = 0; i < x.size(); ++i) {
        const auto is = std::bit_cast<float>(static_cast<uint32_t>(y[i].bits) << 16);
        EXPECT_NEAR(is, wanted[i], std::abs(wanted[i]) / 256)
            << text(position, size) << " at " << i;
      }
    }
}

// dropped(softmax(scale · scores)) written out, with the CPU's dropout.
template <class T>
Values<T> weights_of(const Values<T>& scores, const DropoutMask& mask, const WeightsShape& s) {
  Values<T> weights(scores.size(), T(0)), result(scores.size());
  for (int64_t row = 0; row < s.rows; ++row) {
    const auto seen = s.causal ? row % s.length + 1 : s.length;
    const auto* x = scores.data() + row * s.length;
    const auto largest = s.scale * static_cast<double>(*std::max_element(x, x + seen));
    double sum = 0;
    for (int64_t i = 0; i < seen; ++i)
      sum += std::exp(s.scale * static_cast<double>(x[i]) - largest);
    for (int64_t i = 0; i < seen; ++i)
      weights[static_cast<size_t>(row * s.length + i)] =
          static_cast<T>(std::exp(s.scale * static_cast<double>(x[i]) - largest) / sum);
  }
  drop_elements(weights.data(), result.data(), s.rows * s.length, mask);
  return result;
}

// Its gradient: with the masked gradient in d and the weights in p, scale · p ⊙ (d − ⟨p, d⟩).
template <class T>
Values<T> gradient_of(const Values<T>& scores, const Values<T>& dweights, const DropoutMask& mask,
                      const WeightsShape& s) {
  auto all_kept = mask;
  all_kept.limit = 0, all_kept.scale = 1;
  const auto p = weights_of(scores, all_kept, s);
  auto d = dweights, result = dweights;
  drop_elements(dweights.data(), d.data(), s.rows * s.length, mask);
  for (int64_t row = 0; row < s.rows; ++row) {
    const auto first = static_cast<size_t>(row * s.length);
    double inner_product = 0;
    for (auto i = first; i < first + static_cast<size_t>(s.length); ++i)
      inner_product += static_cast<double>(p[i]) * static_cast<double>(d[i]);
    for (auto i = first; i < first + static_cast<size_t>(s.length); ++i)
      result[i] = static_cast<T>(s.scale * static_cast<double>(p[i]) *
                                 (static_cast<double>(d[i]) - inner_product));
  }
  return result;
}

// `from`: where the scores begin, which is at a multiple of 16 bytes or not. Masked values of a
// causal row are NaN, because the kernel must not read them.
template <class T>
void compare_softmax(const MaskPosition& position, const WeightsShape& s, int64_t from) {
  const auto size = s.rows * s.length;
  const auto mask = mask_at(position);
  const auto scores = drawn<T>(size), dweights = drawn<T>(size);
  Values<T> given(static_cast<size_t>(from), T(0)), dgiven = dweights;
  given.insert(given.end(), scores.begin(), scores.end());
  for (int64_t i = 0; i < size; ++i)
    if (s.causal && i % s.length > i / s.length % s.length)
      given[static_cast<size_t>(from + i)] = dgiven[static_cast<size_t>(i)] = T(NAN);
  Values<T> weights(scores.size(), T(NAN)), dscores = weights;
  dropped_softmax_forward(kStream, given.data() + from, weights.data(), mask, s);
  dropped_softmax_backward(kStream, given.data() + from, dgiven.data(), dscores.data(), mask, s);
  const auto what = text(position, size) + ", length " + std::to_string(s.length);
  const auto wanted = weights_of(scores, mask, s);
  expect_close(weights, wanted, what);
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_EQ(weights[i] == 0, wanted[i] == 0) << what << " at " << i;
  expect_close(dscores, gradient_of(scores, dweights, mask, s), "gradient, " + what);
}

TEST(EmulatedDropout, SoftmaxOfScoresIsItsDefinition) {
  static_assert(dropped_softmax_fits(4096, 1024) && !dropped_softmax_fits(4096, 1025));
  const auto compare = [](int64_t rows, int64_t length, bool causal) {
    const auto& position = kPositions[static_cast<size_t>(length % 4)];
    const WeightsShape shape{.rows = rows, .length = length, .scale = 0.4, .causal = causal};
    compare_softmax<float>(position, shape, 0);
    compare_softmax<float>(position, shape, 1);
    compare_softmax<double>(position, shape, 0);
  };
  for (const bool causal : {true, false})
    for (const int64_t length : {1, 3, 4, 31, 36}) compare(4 * length, length, causal);
  compare(301, 7, true);  // warps go through several rows
  for (const int64_t length : {130, 132}) compare(length, length, true);
  for (const int64_t length : {255, 256, 300, 508, 1023, 1024}) compare(11, length, false);
}

TEST(EmulatedDropout, SoftmaxOfLargeScoresIsFinite) {
  const WeightsShape shape{.rows = 33, .length = 33, .scale = 1, .causal = true};
  auto scores = drawn<float>(33 * 33), weights = scores;
  for (auto& score : scores) score *= 1000;
  dropped_softmax_forward(kStream, scores.data(), weights.data(), mask_at(kPositions[1]), shape);
  expect_close(weights, weights_of(scores, mask_at(kPositions[1]), shape), "scores around 1000");
}

TEST(EmulatedDropout, GradientOfSoftmaxIsThatOfCentralDifferences) {
  for (const auto& position : kPositions)
    for (const bool causal : {true, false}) {
      const WeightsShape shape{.rows = 14, .length = 7, .scale = 0.7, .causal = causal};
      const auto size = shape.rows * shape.length;
      const auto scores = drawn<double>(size), cotangent = drawn<double>(size);
      auto gradient = zeros<double>(size);
      dropped_softmax_backward(kStream, scores.data(), cotangent.data(), gradient.data(),
                               mask_at(position), shape);
      expect_slope(
          {scores}, {gradient},
          [&](const std::vector<Values<double>>& inputs) {
            auto weights = zeros<double>(size);
            dropped_softmax_forward(kStream, inputs[0].data(), weights.data(), mask_at(position),
                                    shape);
            return inner(weights, cotangent);
          },
          text(position, size));
    }
}

TEST(EmulatedDropout, SoftmaxInBfloat16IsThatOfFloat32Rounded) {
  const auto half = [](const Values<float>& x) {
    std::vector<BFloat16> rounded(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      rounded[i].bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(x[i]) >> 16);
    return rounded;
  };
  const auto full = [](const std::vector<BFloat16>& x) {
    Values<float> values(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      values[i] = std::bit_cast<float>(static_cast<uint32_t>(x[i].bits) << 16);
    return values;
  };
  for (const int64_t length : {33, 64, 256}) {
    const WeightsShape shape{.rows = length, .length = length, .scale = 0.5, .causal = true};
    const auto size = shape.rows * length;
    const auto mask = mask_at(kPositions[2]);
    const auto scores = half(drawn<float>(size)), dweights = half(drawn<float>(size));
    auto weights = scores, dscores = scores;
    dropped_softmax_forward(kStream, scores.data(), weights.data(), mask, shape);
    dropped_softmax_backward(kStream, scores.data(), dweights.data(), dscores.data(), mask, shape);
    const auto wanted = weights_of(full(scores), mask, shape),
               dwanted = gradient_of(full(scores), full(dweights), mask, shape);
    const auto is = full(weights), dis = full(dscores);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(is[i], wanted[i], std::abs(wanted[i]) / 256 + 1e-7) << length << " at " << i;
      ASSERT_NEAR(dis[i], dwanted[i], std::abs(dwanted[i]) / 256 + 1e-6) << length << " at " << i;
    }
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
