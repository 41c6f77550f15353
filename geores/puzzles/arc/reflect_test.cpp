#include "geores/puzzles/arc/reflect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "geores/puzzles/sample_test.h"

namespace geores::puzzles {
namespace {

std::vector<Task> all_tasks() {
  std::vector<Task> tasks;
  for (const char* subset : {"training", "evaluation", "concept"})
    for (const auto& task : arc_subset(subset)) tasks.push_back(task);
  return tasks;
}

std::string id_of(const ReflectTask& each) { return each.task.subset + "/" + each.task.name; }

TEST(Reflect, PublishedChoiceIsTheGoldens) {
  if (!has_arc()) GTEST_SKIP() << "GEORES_DATA_DIR has no ARC tasks";
  const auto choice = choose_published(all_tasks(), 42);
  for (const std::string label : {"reflect", "control"}) {
    const auto& expected = golden()["reflect_lite"][label];
    std::vector<ReflectTask> candidates;
    std::vector<std::string> selected;
    for (const auto& each : choice.candidates)
      if (each.label == label) candidates.push_back(each);
    for (const auto& each : choice.selected)
      if (each.label == label) selected.push_back(id_of(each));
    ASSERT_EQ(candidates.size(), expected["candidates"].size());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const auto& wanted = expected["candidates"][i];
      EXPECT_EQ(id_of(candidates[i]), wanted["id"].get<std::string>());
      EXPECT_NEAR(candidates[i].score.reflect, wanted["reflect"], 1e-6);
      EXPECT_NEAR(candidates[i].score.rotation, wanted["rotation"], 1e-6);
      EXPECT_NEAR(candidates[i].score.identity, wanted["identity"], 1e-6);
    }
    EXPECT_EQ(selected, expected["selected"].get<std::vector<std::string>>());
  }
  EXPECT_EQ(facts_about(choice)[0],
            "reflect: 20 candidates, 20 selected; 1 of these from evaluation, 13 ties between "
            "reflections and the other classes, 5 explained on all pairs by their class alone");
}

TEST(Reflect, StrictChoiceHasFiveReflectionsAndTwentyFourControls) {
  if (!has_arc()) GTEST_SKIP() << "GEORES_DATA_DIR has no ARC tasks";
  std::map<std::string, int> count;
  for (const auto& each : choose_strict(all_tasks()).selected) ++count[each.label];
  EXPECT_EQ(count["reflect"], 5);
  EXPECT_EQ(count["control"], 24);
}

TEST(Reflect, AnyFunctionOfColoursMayFollowTheSymmetry) {
  const Pair merged{{1, 3, {1, 2, 0}}, {1, 3, {0, 5, 5}}};
  EXPECT_TRUE(fits(merged, 4));   // mirrored, then 1 and 2 become 5
  EXPECT_FALSE(fits(merged, 6));  // another shape
  const Pair split{{1, 2, {1, 1}}, {1, 2, {3, 4}}};
  for (int t = 0; t < 8; ++t) EXPECT_FALSE(fits(split, t)) << t;
}

TEST(Reflect, SyntheticTasksAreExplainedByTheirClassAlone) {
  const auto tasks = synthetic_tasks(40, 5);
  ASSERT_EQ(tasks.size(), 80u);
  for (const auto& [task, score, label] : tasks) {
    EXPECT_EQ(score.reflect, label == "reflect" ? 1 : 0) << task.name;
    EXPECT_EQ(score.rotation, label == "reflect" ? 0 : 1) << task.name;
    EXPECT_EQ(score.identity, 0) << task.name;
    EXPECT_EQ(task.demonstrations.size(), 3u);
    ASSERT_EQ(task.tests.size(), 1u);
    for (int t = label == "reflect" ? 1 : 4; t < (label == "reflect" ? 4 : 8); ++t)
      EXPECT_FALSE(fits(task.tests[0], t));
  }
  EXPECT_EQ(synthetic_tasks(40, 5)[7].task.demonstrations, tasks[7].task.demonstrations);
  EXPECT_NE(synthetic_tasks(40, 6)[7].task.demonstrations, tasks[7].task.demonstrations);
}

TEST(Reflect, SetsHoldOutAllTestsAndPermuteColoursOnly) {
  const auto recipe = build_reflect(synthetic_tasks(4, 1), true,
                                    {.variants = 5, .dihedral = false, .shuffle_tasks = false});
  EXPECT_EQ(recipe.groups.size(), 8u);
  for (const auto& group : recipe.groups) {
    EXPECT_EQ(group.test.size(), 1u);
    EXPECT_EQ(group.train.size(), 3u);
  }
  EXPECT_EQ(recipe.groups.front().label, "reflect");
  EXPECT_EQ(recipe.groups.back().label, "control");
  for (const auto& variant : recipe.variants) EXPECT_EQ(variant.t, 0);
}

}  // namespace
}  // namespace geores::puzzles
