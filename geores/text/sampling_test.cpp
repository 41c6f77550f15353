#include "geores/text/sampling.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/testing/testing.h"

namespace geores {
namespace {

const std::vector<double> kLogits = {1.0, 3.0, 2.0, -1.0};

// How often each id is chosen in many positions.
std::vector<double> frequencies(const SamplingOptions& options, const Ids& history = {}) {
  constexpr int positions = 20000;
  std::vector<double> counts(kLogits.size());
  for (uint64_t i = 0; i < positions; ++i)
    counts[choose(kLogits, history, options, 0, i).id] += 1.0 / positions;
  return counts;
}

std::vector<double> softmax(std::vector<double> values, double temperature) {
  double sum = 0;
  for (auto& value : values) sum += value = std::exp(value / temperature);
  for (auto& value : values) value /= sum;
  return values;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 0.015) << i;
}

TEST(Sampling, DrawsFromTheSoftmax) {
  expect_near(frequencies({}), softmax(kLogits, 1));
  expect_near(frequencies({.temperature = 2}), softmax(kLogits, 2));
}

TEST(Sampling, RefusesAPenaltyThatMakesInfinities) {
  EXPECT_EQ(refusal([] { SamplingOptions{.repetition_penalty = 1e-320}.check(); }).substr(0, 54),
            "[generate] repetition-penalty must be at least 0.001, ");
}

TEST(Sampling, KeepsTheLikeliest) {
  const auto two = softmax({1.0, 0.0}, 1);
  expect_near(frequencies({.top_k = 2}), {0, two[0], two[1], 0});
  // 0.66 of the mass is id 1's, 0.24 id 2's.
  expect_near(frequencies({.top_p = 0.6}), {0, 1, 0, 0});
  expect_near(frequencies({.top_p = 0.7}), {0, two[0], two[1], 0});
  expect_near(frequencies({.top_p = 1e-9}), {0, 1, 0, 0});
}

TEST(Sampling, ZeroIsGreedyAndOfEqualsTheFirst) {
  EXPECT_EQ(choose(kLogits, {}, {.temperature = 0}, 0, 0).id, 1);
  EXPECT_EQ(choose(kLogits, {}, {.temperature = 0}, 0, 0).log_probability, 0);
  EXPECT_EQ(choose(std::vector<double>{2, 5, 5}, {}, {.temperature = 0}, 3, 7).id, 1);
}

TEST(Sampling, PenaltyMakesRepetitionLessLikely) {
  const Ids history = {1, 3, 1};
  expect_near(frequencies({.repetition_penalty = 2}, history), softmax({1.0, 1.5, 2.0, -2.0}, 1));
}

TEST(Sampling, NumbersAreAFunctionOfSeedSampleAndPosition) {
  EXPECT_EQ(uniform_number(1, 2, 3), uniform_number(1, 2, 3));
  EXPECT_NE(uniform_number(1, 2, 3), uniform_number(2, 2, 3));
  EXPECT_NE(uniform_number(1, 2, 3), uniform_number(1, 3, 2));
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) sum += uniform_number(5, 0, i);
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
}

TEST(Sampling, RefusesWhatMakesNoSense) {
  const auto refused = [](const SamplingOptions& options) {
    return refusal([&] { options.check(); });
  };
  EXPECT_EQ(refused({.temperature = -1}), "[generate] temperature must be >= 0, got -1");
  EXPECT_EQ(refused({.top_p = 0}), "[generate] top-p must be in (0, 1], got 0");
  EXPECT_EQ(refused({.top_p = 1.5}), "[generate] top-p must be in (0, 1], got 1.5");
  EXPECT_EQ(refused({.top_k = -1}), "[generate] top-k must be >= 1, got -1");
  EXPECT_EQ(refusal([] {
              choose(std::vector<double>{1, NAN}, {}, {}, 0, 4);
            }),
            "[generate] the model gives a logit that is not a finite number at position 4");
}

}  // namespace
}  // namespace geores
