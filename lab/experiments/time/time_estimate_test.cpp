#include "lab/experiments/time/time_estimate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace geores {
namespace {

using std::chrono::milliseconds;

// A run whose every step sleeps, with an evaluation before the first.
RunToTime sleeping_run(const std::string& kind, int step, int evaluated_batch, int* trained) {
  RunToTime run{.kind = kind, .steps = 100, .evaluated_batches = 10};
  run.train = [=](const Listener& listener) {
    ++*trained;
    for (int i = 0; i < 100 && !listener.stop(); ++i)
      std::this_thread::sleep_for(milliseconds(i == 0 ? evaluated_batch + step : step));
  };
  return run;
}

TEST(TimeEstimate, IsWhatTheRunsTakeFromAFewStepsOfEachKind) {
  int fast = 0, slow = 0;
  const std::vector<RunToTime> runs = {sleeping_run("fast", 10, 30, &fast),
                                       sleeping_run("fast", 10, 30, &fast),
                                       sleeping_run("slow", 40, 30, &slow)};
  const auto estimate = estimate_time(runs, 0, 1, {});
  EXPECT_EQ(estimate.runs, 3);
  EXPECT_EQ(estimate.steps, 300);
  EXPECT_EQ(fast, 1);
  EXPECT_EQ(slow, 1);
  const auto expected = (2 * (100 * 10 + 10 * 30) + 100 * 40 + 10 * 30) / 1000.0;
  // A sleep may take longer on a busy machine.
  EXPECT_GT(estimate.seconds, 0.8 * expected);
  EXPECT_LT(estimate.seconds, 2.5 * expected);
  // Two at a time take half as long, or as long as the longest.
  const auto both = estimate_time(runs, 0, 2, {});
  EXPECT_GT(both.seconds, 4);
  EXPECT_LT(both.seconds, 0.9 * estimate.seconds);
  // Other work is counted in steps of an average run: 25 ms.
  EXPECT_GT(estimate_time(runs, 1000, 1, {}).seconds, estimate.seconds + 15);
}

TEST(TimeEstimate, WhatCouldNotBeTimedCountsAsAnAverageRun) {
  int trained = 0;
  RunToTime broken{.kind = "one step alone", .steps = 50};
  broken.train = [](const Listener& listener) { listener.stop(); };
  const auto estimate = estimate_time({sleeping_run("a", 20, 0, &trained), broken}, 0, 1, {});
  EXPECT_EQ(estimate.timed, 1u);
  EXPECT_EQ(estimate.kinds, 2u);
  EXPECT_GT(estimate.seconds, 0.8 * 150 * 0.020);
  EXPECT_NE(estimate.text().find("150 steps together: about"), std::string::npos);
  EXPECT_NE(estimate.text().find("(1 of 2 kinds of runs were timed)"), std::string::npos);
  const auto unknown = estimate_time({broken}, 0, 1, {});
  EXPECT_EQ(unknown.text(),
            "1 run with 50 steps: for an unknown time (0 of 1 kinds of runs were timed)");
  const auto stopped =
      estimate_time({sleeping_run("a", 20, 0, &trained)}, 0, 1, [] { return true; });
  EXPECT_EQ(stopped.timed, 0u);
  EXPECT_EQ(trained, 1);
}

TEST(TimeEstimate, IsWrittenRoughly) {
  const auto text = [](double seconds) {
    return TimeEstimate{.runs = 24, .steps = 7200, .seconds = seconds, .jobs = 2}.text();
  };
  EXPECT_EQ(text(40.3), "24 runs with 7200 steps together: about 41 seconds, 2 at a time");
  EXPECT_EQ(text(0.1), "24 runs with 7200 steps together: about 1 seconds, 2 at a time");
  EXPECT_EQ(text(361), "24 runs with 7200 steps together: about 6 minutes, 2 at a time");
  EXPECT_EQ(text(7300), "24 runs with 7200 steps together: about 2 hours, 2 at a time");
  EXPECT_EQ(text(864000), "24 runs with 7200 steps together: about 10 days, 2 at a time");
}

}  // namespace
}  // namespace geores
