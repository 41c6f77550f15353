#include "geores/data/tasks/stability.h"

#include "geores/data/generated.h"

namespace geores {
namespace {

constexpr int64_t kStabilityWidth = 64;
constexpr GeneratedOptions kStabilityDefaults{
    .train_sequences = 900, .validation_sequences = 100, .length = 128};

Trajectories draw_stability(NumpyRandom& random, int64_t count, int64_t length) {
  Trajectories result(count, length, kStabilityWidth);
  for (int64_t n = 0; n < count; ++n) {
    const auto key = unit_vector(random, kStabilityWidth);
    for (int64_t t = 0; t < length; ++t)
      for (const double value : key)
        result.values.push_back(static_cast<float>(value + 1e-3 * random.randn()));
  }
  return result;
}

Dataset load_stability(const nlohmann::json& options, const std::string& cache) {
  auto sizes = kStabilityDefaults;
  sizes.fields().read(options, "stability");
  return load_generated(
      {.task = "stability",
       .options = options,
       .sizes = sizes,
       .width = kStabilityWidth,
       .draw = [&](NumpyRandom& random,
                   int64_t count) { return draw_stability(random, count, sizes.length); }},
      cache);
}

}  // namespace

Task stability_task() {
  return {.name = "stability",
          .summary = "a unit vector of R^64 that does not change, seen through noise of 1e-3",
          .options = OptionSet::of(kStabilityDefaults),
          .load = load_stability};
}

}  // namespace geores
