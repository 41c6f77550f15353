#include "geores/puzzles/arc/recipe.h"

#include <algorithm>
#include <set>
#include <utility>

#include "geores/base/error.h"
#include "geores/base/formats/numpy_random.h"
#include "geores/base/sha256.h"
#include "geores/puzzles/arc/duplicate_finder.h"
#include "geores/puzzles/tokens.h"

namespace geores::puzzles {
namespace {

constexpr int64_t kAttemptsPerVariant = 5;

template <class T>
void numpy_shuffle(std::span<T> values, NumpyRandom& random) {
  for (auto i = static_cast<int64_t>(values.size()) - 1; i > 0; --i)
    std::swap(values[static_cast<std::size_t>(i)],
              values[static_cast<std::size_t>(random.randint(0, i + 1))]);
}

int largest_side(const std::vector<Pair>& pairs) {
  int side = 0;
  for (const auto& pair : pairs)
    for (const auto* grid : {&pair.input, &pair.output})
      side = std::max({side, grid->height, grid->width});
  return side;
}

Group group_of(const Task& task, bool tests_held_out) {
  Group group{.task = task.name, .subset = task.subset, .train = task.demonstrations, .test = {}};
  if (tests_held_out) {
    group.test = task.tests;
  } else {
    group.train.insert(task.tests_first ? group.train.begin() : group.train.end(),
                       task.tests.begin(), task.tests.end());
  }
  return group;
}

Variant draw_variant(const ArcOptions& options, NumpyRandom& random) {
  Variant variant;
  if (options.dihedral) variant.t = static_cast<uint8_t>(random.randint(0, 8));
  numpy_shuffle(std::span(variant.colours).subspan(1), random);
  return variant;
}

std::vector<Variant> draw_variants(const Group& group, const ArcOptions& options,
                                   NumpyRandom& random) {
  auto pairs = group.train;
  pairs.insert(pairs.end(), group.test.begin(), group.test.end());
  DuplicateFinder finder(pairs);
  std::vector<Variant> kept(1);  // the original
  finder.is_new(kept.front());
  for (int64_t drawn = 0; drawn < kAttemptsPerVariant * options.variants; ++drawn) {
    const auto variant = draw_variant(options, random);
    if (finder.is_new(variant)) kept.push_back(variant);
    if (std::cmp_greater(kept.size(), options.variants)) break;
  }
  return kept;
}

// The side of a pair's box for the offset: the larger of its two grids, turned if t turns it.
std::array<int, 2> box_of(const Pair& pair, const Variant& variant) {
  const int height = std::max(pair.input.height, pair.output.height);
  const int width = std::max(pair.input.width, pair.output.width);
  const bool turned = variant.t == 1 || variant.t == 3 || variant.t >= 6;
  return turned ? std::array{width, height} : std::array{height, width};
}

void draw_offsets(ArcRecipe& recipe, NumpyRandom& random) {
  for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
    const auto& pairs = recipe.groups[g].train;
    for (auto v = recipe.first_variant[g]; v < recipe.first_variant[g + 1]; ++v) {
      const auto staying = random.randint(0, static_cast<int64_t>(pairs.size()));
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        std::array<uint8_t, 2> offset{0, 0};
        if (std::cmp_not_equal(i, staying)) {
          const auto box = box_of(pairs[i], recipe.variants[static_cast<std::size_t>(v)]);
          for (std::size_t side = 0; side < 2; ++side)
            offset[side] = static_cast<uint8_t>(random.randint(0, recipe.canvas - box[side] + 1));
        }
        recipe.offsets.push_back(offset);
      }
    }
  }
}

}  // namespace

ArcRecipe build_arc(const std::vector<Subset>& subsets, const ArcOptions& options,
                    const std::function<void(int64_t, int64_t)>& progress) {
  require(options.canvas >= 1 && options.canvas <= kLargestGrid, "arc",
          "canvas must be 1 to {}, got {}", kLargestGrid, options.canvas);
  require(options.variants >= 0 && options.variants <= 100000, "arc",
          "variants must be 0 to 100000, got {}", options.variants);
  NumpyRandom random(options.seed);
  ArcRecipe recipe;
  recipe.canvas = options.canvas;
  recipe.first_variant.push_back(0);
  int64_t total = 0, done = 0;
  for (const auto& subset : subsets) total += static_cast<int64_t>(subset.tasks.size());
  std::set<std::string> names;
  for (const auto& subset : subsets) {
    std::vector<const Task*> tasks;
    for (const auto& task : subset.tasks) tasks.push_back(&task);
    if (options.shuffle_tasks) numpy_shuffle(std::span(tasks), random);
    for (const auto* task : tasks) {
      require(names.insert(task->name).second, "arc", "task {} appears in two subsets",
              quote(task->name));
      ++done;
      auto group = group_of(*task, subset.tests_held_out);
      if (std::max(largest_side(group.train), largest_side(group.test)) > options.canvas) continue;
      const auto variants = draw_variants(group, options, random);
      recipe.variants.insert(recipe.variants.end(), variants.begin(), variants.end());
      recipe.first_variant.push_back(static_cast<int32_t>(recipe.variants.size()));
      recipe.groups.push_back(std::move(group));
      if (progress) progress(done, total);
    }
  }
  require(!recipe.groups.empty(), "arc", "no task fits a canvas of {0} x {0}", options.canvas);
  if (options.translate) {
    draw_offsets(recipe, random);
  } else {
    for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
      const auto variants = recipe.first_variant[g + 1] - recipe.first_variant[g];
      recipe.offsets.resize(recipe.offsets.size() +
                            recipe.groups[g].train.size() * static_cast<std::size_t>(variants));
    }
  }
  return recipe;
}

void make_row(const Pair& pair, const Variant& variant, int canvas,
              const std::array<uint8_t, 2>& offset, std::span<uint8_t> inputs,
              std::span<uint8_t> labels) {
  write_tokens(apply(variant, pair.input), canvas, offset[0], offset[1], inputs);
  write_tokens(apply(variant, pair.output), canvas, offset[0], offset[1], labels);
}

std::string identifiers_hash(const ArcRecipe& recipe) {
  Sha256 sum;
  sum.add("<blank>\n");
  for (std::size_t g = 0; g < recipe.groups.size(); ++g)
    for (auto v = recipe.first_variant[g]; v < recipe.first_variant[g + 1]; ++v)
      sum.add(name_of(recipe.groups[g].task, recipe.variants[static_cast<std::size_t>(v)]) + "\n");
  return sum.hex();
}

}  // namespace geores::puzzles
