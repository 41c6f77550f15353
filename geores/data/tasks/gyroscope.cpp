#include "geores/data/tasks/gyroscope.h"

#include <cmath>

#include "geores/data/generated.h"

namespace geores {
namespace {

constexpr int64_t kGyroscopeWidth = 16;
constexpr GeneratedOptions kGyroscopeDefaults{
    .train_sequences = 9000, .validation_sequences = 1000, .length = 256};

Trajectories draw_gyroscope(NumpyRandom& random, int64_t count, int64_t length) {
  Trajectories result(count, length, kGyroscopeWidth);
  for (int64_t n = 0; n < count; ++n) {
    auto state = unit_vector(random, kGyroscopeWidth);
    const auto theta = random.uniform(0.1, 2.5);
    const auto i = random.randint(0, kGyroscopeWidth - 1);
    const auto j = random.randint(i + 1, kGyroscopeWidth);
    result.theta.push_back(static_cast<float>(theta));
    const auto cosine = std::cos(theta), sine = std::sin(theta);
    for (int64_t t = 0; t < length; ++t) {
      result.append(state);
      rotate(state[static_cast<std::size_t>(i)], state[static_cast<std::size_t>(j)], cosine, sine);
    }
  }
  return result;
}

Dataset load_gyroscope(const nlohmann::json& options, const std::string& cache) {
  auto sizes = kGyroscopeDefaults;
  sizes.fields().read(options, "gyroscope");
  return load_generated(
      {.task = "gyroscope",
       .options = options,
       .sizes = sizes,
       .width = kGyroscopeWidth,
       .has_theta = true,
       .draw = [&](NumpyRandom& random,
                   int64_t count) { return draw_gyroscope(random, count, sizes.length); }},
      cache);
}

}  // namespace

Task gyroscope_task() {
  return {.name = "gyroscope",
          .summary = "a unit vector of R^16 turns in a random plane by a hidden angle",
          .options = OptionSet::of(kGyroscopeDefaults),
          .load = load_gyroscope};
}

}  // namespace geores
