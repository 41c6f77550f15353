#include "lab/experiments/shards/shard.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "geores/base/file.h"
#include "geores/testing/testing.h"
#include "lab/experiments/reproduce.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

TEST(Shard, IsReadFromItsText) {
  EXPECT_EQ(shard_from("2/8").index, 2);
  EXPECT_EQ(shard_from("2/8").count, 8);
  for (const auto* text : {"0/8", "9/8", "2", "2/", "/2", "a/b", "1/0", "-1/2", "1/2/3"})
    EXPECT_EQ(refusal([&] { shard_from(text); }),
              fmt::format("[reproduce] a shard is i/N with i in 1..N, got '{}'", text));
}

TEST(Shard, ShardsHaveEverythingOnce) {
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6};
  std::multiset<int> seen;
  for (int64_t i = 1; i <= 3; ++i)
    for (const auto one : Shard{.index = i, .count = 3}.of(all)) seen.insert(one);
  EXPECT_EQ(seen, std::multiset<int>(all.begin(), all.end()));
}

// One experiment with its norms, at the smallest size.
ReproduceOptions tiny(const fs::path& out) {
  const Scale scale{.name = "tiny",
                    .width_divisor = 16,
                    .depth_divisor = 9,
                    .gyroscope_sequences = 12,
                    .train_sequences = 12,
                    .validation_sequences = 6,
                    .length = 9,
                    .steps = 2,
                    .batch = 2,
                    .eval_batches = 1,
                    .all_seeds = false,
                    .chosen_seeds = {1, 2},
                    .reflection_samples = {3},
                    .reflection_seeds = {1},
                    .reflection_steps = 2,
                    .norms = {.random_sequences = 2,
                              .random_length = 8,
                              .rollouts = 2,
                              .rollout_steps = 3,
                              .window = 4}};
  return {.out = out.string(),
          .scale = scale,
          .only = {"main", "norms", "reflection"},
          .columns = {"stability"},
          .arms = {"gpt", "jpmhc", "ddl"},
          .jobs = 1};
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TEST(Shard, MergedShardsAreTheWholeReproduction) {
  const TemporaryFolder folder;
  const auto at = [&](const char* name) { return folder.path() / name; };
  ASSERT_TRUE(reproduce_shard(tiny(at("part1")), {.index = 1, .count = 2}));
  ASSERT_TRUE(reproduce_shard(tiny(at("part2")), {.index = 2, .count = 2}));
  for (const auto* kind : {"runs", "probes", "norms"}) {
    const auto one = names_in(at("part1") / kind), two = names_in(at("part2") / kind);
    EXPECT_GE(one.size(), 2u) << kind;
    EXPECT_GE(two.size(), 2u) << kind;
    for (const auto& name : one) EXPECT_EQ(two.count(name), 0u) << name;
  }
  EXPECT_FALSE(fs::exists(at("part1") / "index.html"));

  auto options = tiny(at("whole"));
  options.merge = {at("part1").string(), at("part2").string()};
  std::vector<std::string> notices;
  int64_t steps = -1;
  ReproduceListener listener;
  listener.notice = [&](const std::string& text) { notices.push_back(text); };
  listener.progress = [&](const JobProgress& progress) { steps = progress.total; };
  ASSERT_TRUE(reproduce(options, listener));
  EXPECT_EQ(steps, -1) << "nothing was left to do";
  ASSERT_EQ(notices.size(), 2u);
  EXPECT_EQ(names_in(at("whole") / "runs").size(), 6u);
  EXPECT_TRUE(fs::exists(at("whole") / "index.html"));

  // An existing run stays; one with other settings is refused.
  const auto run = *names_in(at("part1") / "runs").begin();
  const auto file = at("part1") / "runs" / run / "config.json";
  auto config = nlohmann::json::parse(read_text_file(file));
  config["lr"] = 0.5;
  write_file_atomically(file, config.dump());
  EXPECT_EQ(refusal([&] { reproduce(options); }),
            fmt::format("[reproduce] run {} has another configuration in {} than in {}", run,
                        at("part1").string(), at("whole").string()));
  auto other = nlohmann::json::parse(read_text_file(at("part2") / "reproduction.json"));
  other["precision"] = "bf16";
  write_file_atomically(at("part2") / "reproduction.json", other.dump());
  options.merge = {at("part2").string()};
  EXPECT_EQ(refusal([&] { reproduce(options); }),
            fmt::format("[reproduce] {} is a reproduction with precision \"bf16\", that in {} has "
                        "\"fp32\"",
                        at("part2").string(), at("whole").string()));
  options.merge = {at("nowhere").string()};
  EXPECT_EQ(refusal([&] { reproduce(options); }),
            fmt::format("[reproduce] {} holds no reproduction to merge", at("nowhere").string()));
}

}  // namespace
}  // namespace geores
