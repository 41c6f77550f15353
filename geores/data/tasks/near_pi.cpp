#include "geores/data/tasks/near_pi.h"

#include <cmath>
#include <utility>

#include "geores/data/generated.h"

namespace geores {
namespace {

constexpr int64_t kNearPiWidth = 64;

struct NearPiOptions {
  GeneratedOptions sizes = {.train_sequences = 1000, .validation_sequences = 500, .length = 128};
  double theta = 0;

  Fields fields() {
    return sizes.fields().add("theta", theta, "angle per step",
                              {.min = 0, .max = 6.283185307179586});
  }
};

Trajectories draw_near_pi(NumpyRandom& random, int64_t count, int64_t length, int64_t planes,
                          double theta) {
  Trajectories result(count, length, kNearPiWidth);
  const auto cosine = std::cos(theta), sine = std::sin(theta);
  for (int64_t n = 0; n < count; ++n) {
    auto state = unit_vector(random, kNearPiWidth);
    for (int64_t t = 0; t < length; ++t) {
      result.append(state);
      for (std::size_t p = 0; std::cmp_less(p, planes); ++p)
        rotate(state[2 * p], state[2 * p + 1], cosine, sine);
    }
  }
  return result;
}

Task task_with(const std::string& name, const std::string& summary, int64_t planes, double theta) {
  const NearPiOptions defaults{.theta = theta};
  const auto load = [=](const nlohmann::json& given, const std::string& cache) {
    auto options = defaults;
    options.fields().read(given, name);
    const auto& sizes = options.sizes;
    return load_generated({.task = name,
                           .options = given,
                           .sizes = sizes,
                           .width = kNearPiWidth,
                           .draw =
                               [&](NumpyRandom& random, int64_t count) {
                                 return draw_near_pi(random, count, sizes.length, planes,
                                                     options.theta);
                               },
                           .validation_seed = sizes.data_seed + 1000},
                          cache);
  };
  return {.name = name, .summary = summary, .options = OptionSet::of(defaults), .load = load};
}

}  // namespace

Task near_pi_task() {
  return task_with("near_pi", "a unit vector of R^64 turns in one plane by an angle near pi", 1,
                   3.10);
}

Task near_pi_multi_task() {
  return task_with("near_pi_multi",
                   "a unit vector of R^64 turns in all 32 planes by an angle near pi", 32, 3.14);
}

}  // namespace geores
