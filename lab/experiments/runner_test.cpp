#include "lab/experiments/runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "geores/base/error.h"
#include "geores/testing/testing.h"
#include "lab/experiments/language/papers.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

TEST(Jobs, AllRunOnceOnAnyNumberOfThreadsAndProgressAddsUp) {
  for (const int threads : {1, 3}) {
    std::vector<std::atomic<int>> runs(7);
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < runs.size(); ++i)
      jobs.push_back({"job", 10, [&runs, i](const std::function<void(int64_t)>& progress) {
                        progress(5);
                        ++runs[i];
                      }});
    int64_t last = 0, total = 0;
    run_jobs(jobs, threads, [&](const JobProgress& progress) {
      EXPECT_GE(progress.done, last);
      last = progress.done;
      total = progress.total;
    });
    for (auto& count : runs) EXPECT_EQ(count, 1);
    EXPECT_EQ(last, 70);
    EXPECT_EQ(total, 70);
  }
}

TEST(Jobs, TheFirstFailureStopsTheRestAndIsThrown) {
  int after = 0;
  std::vector<Job> jobs(3, Job{"fine", 1, [&](const auto&) { ++after; }});
  jobs[0].work = [](const auto&) { fail("job", "broken"); };
  EXPECT_THROW(run_jobs(jobs, 1, {}), Error);
  EXPECT_EQ(after, 0);
  run_jobs({}, 4, {});
}

TEST(Jobs, WaitForTheJobWhoseResultTheyNeed) {
  for (const int threads : {1, 2, 5}) {
    std::mutex mutex;
    std::string order;
    const auto job = [&](const std::string& name, const std::string& after) {
      return Job{name, 1,
                 [&, name](const auto&) {
                   if (name == "a") std::this_thread::sleep_for(std::chrono::milliseconds(20));
                   const std::lock_guard lock(mutex);
                   order += name;
                 },
                 after};
    };
    run_jobs({job("x", "a"), job("y", "x"), job("a", ""), job("z", "not in the list")}, threads,
             {});
    EXPECT_EQ(order.size(), 4u);
    EXPECT_LT(order.find('a'), order.find('x')) << order;
    EXPECT_LT(order.find('x'), order.find('y')) << order;
    if (threads > 1) {
      EXPECT_EQ(order.front(), 'z') << order << ": no job waits needlessly";
    }
  }
  const Job nothing{"a", 1, [](const auto&) {}, "a"};
  EXPECT_THROW(run_jobs({nothing}, 2, {}), Error) << "it waits for itself";
}

TEST(Runner, AllArmsOfAColumnAreTrainedWithOneSeedBeforeTheNext) {
  const auto& main = paper_experiments()[0];
  const auto scale = scale_from("paper");
  const auto runs = planned_runs({main}, scale, {});
  const auto seeds = scale.seeds(main);
  for (std::size_t i = 0; i < seeds.size() * main.arms.size(); ++i)
    EXPECT_EQ(runs.at(i).config.seed, static_cast<uint64_t>(seeds[i / main.arms.size()])) << i;
}

// Two seeds trained concurrently have the same results as alone.
TEST(Runner, RunsSideBySideDoNotDisturbEachOther) {
  const TemporaryFolder folder;
  const auto& main = paper_experiments()[0];
  std::vector<PlannedRun> runs;
  for (const auto& arm : {main.arm("gpt"), main.arm("edelta")})
    for (const auto seed : {1, 2}) {
      auto config = run_config(main.column("stability"), arm, seed, scale_from("quick"), {});
      config.steps = 6;
      config.model.options["layers"] = 1;
      config.eval_interval = 3;
      config.task.options["train_sequences"] = 20;
      config.task.options["validation_sequences"] = 10;
      runs.push_back({run_name(config), config});
    }
  DatasetShelf shelf("");
  const auto side_by_side = (folder.path() / "a").string(), alone = (folder.path() / "b").string();
  run_jobs(training_jobs(runs, side_by_side, shelf, {}), 4, {});
  // Every worker has one core there, and here too.
  for (const auto& run : runs) run_jobs(training_jobs({run, run}, alone, shelf, {}), 1, {});
  for (const auto& run : runs) {
    auto a = read_result((fs::path(side_by_side) / run.name).string());
    auto b = read_result((fs::path(alone) / run.name).string());
    EXPECT_NEAR(a.at("exact_best").get<double>(), b.at("exact_best").get<double>(),
                1e-5 * b.at("exact_best").get<double>());
    EXPECT_FALSE(read_metrics((fs::path(alone) / run.name).string()).empty());
  }
  EXPECT_TRUE(training_jobs(runs, alone, shelf, {}).empty()) << "finished runs are not run again";
}

TEST(Runner, MixesTwoListsEvenly) {
  const auto jobs = [](const std::string& names) {
    std::vector<Job> all;
    for (const char name : names) all.push_back({.name = std::string(1, name), .work = {}});
    return all;
  };
  const auto names = [](const std::vector<Job>& all) {
    std::string joined;
    for (const auto& job : all) joined += job.name;
    return joined;
  };
  EXPECT_EQ(names(mixed(jobs("abcd"), jobs("12"))), "ab1cd2");
  EXPECT_EQ(names(mixed(jobs("ab"), jobs("1234"))), "a12b34");
  EXPECT_EQ(names(mixed(jobs("abc"), {})), "abc");
  EXPECT_EQ(names(mixed({}, jobs("12"))), "12");
}

TEST(LanguagePapers, ARunHasOneNameInAnyDataFolder) {
  const auto here = language_paper("nanogpt", "quick", "data"),
             there = language_paper("nanogpt", "quick", "/elsewhere/texts");
  const auto name = [](const LanguagePaper& paper) {
    return planned_runs(paper.experiments, language_scale("quick"), {}).front().name;
  };
  EXPECT_EQ(name(here), name(there));
}

}  // namespace
}  // namespace geores
