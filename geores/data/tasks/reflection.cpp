#include "geores/data/tasks/reflection.h"

#include "geores/base/error.h"
#include "geores/data/generated.h"

namespace geores {
namespace {

constexpr int64_t kReflectionWidth = 64, kReflectionValidationSeed = 999;
constexpr GeneratedOptions kReflectionDefaults{
    .train_sequences = 500, .validation_sequences = 500, .length = 2};

Trajectories draw_reflection(NumpyRandom& random, int64_t count) {
  Trajectories result(count, 2, kReflectionWidth);
  for (int64_t n = 0; n < count; ++n) {
    auto state = gaussian(random, kReflectionWidth);
    result.append(state);
    for (double& value : state) value = -value;
    result.append(state);
  }
  return result;
}

Dataset load_reflection(const nlohmann::json& options, const std::string& cache) {
  auto sizes = kReflectionDefaults;
  sizes.fields().read(options, "reflection");
  require(sizes.length == 2, "reflection", "'length' must be 2 (x and -x), got {}", sizes.length);
  require(sizes.data_seed != kReflectionValidationSeed, "reflection",
          "'data_seed' {} is the seed of the validation sequences", sizes.data_seed);
  return load_generated({.task = "reflection",
                         .options = options,
                         .sizes = sizes,
                         .width = kReflectionWidth,
                         .draw = draw_reflection,
                         .validation_seed = kReflectionValidationSeed},
                        cache);
}

}  // namespace

Task reflection_task() {
  return {.name = "reflection",
          .summary = "y = -x for Gaussian vectors of R^64, one at a time",
          .options = OptionSet::of(kReflectionDefaults),
          .load = load_reflection};
}

}  // namespace geores
