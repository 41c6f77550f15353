#include <fmt/format.h>

#include <memory>

#include "cli/lab/bench_sizes.h"
#include "geores/base/error.h"
#include "geores/ops/run/device_named.h"
#include "lab/benchmark/generation_benchmark.h"

namespace geores::cli {

void bench_generation(const BenchFlags& flags) {
  require(flags.length >= 4, "bench", "--generate needs a --length of at least 4, got {}",
          flags.length);
  const auto sizes = wanted_sizes(flags);
  auto rows = nlohmann::json::array();
  if (!flags.json) {
    fmt::print(
        "A text continued id by id until the context of {} is full, its first half being the "
        "prompt; {} ids, {} threads, float32\n",
        flags.length, flags.vocabulary, torch::get_num_threads());
    fmt::print("{:<16} {:>7} {:>12} {:>12} {:>12} {:>8}\n", "", "size", "prompt", "cache",
               "no cache", "");
    fmt::print("{:<16} {:>7} {:>12} {:>12} {:>12} {:>8}\n", "connection", "L/D", "ids/s", "ids/s",
               "ids/s", "faster");
  }
  for (const auto& size : sizes) {
    const auto config = config_of(size, flags);
    torch::manual_seed(1);
    const auto model = std::make_shared<Transformer>(config);
    model->to(device_named(flags.device, "bench"));
    const auto speed = generation_speed(*model, 4 * flags.repeats);
    rows.push_back({{"model", size.label},
                    {"layers", config.layers},
                    {"width", config.width},
                    {"parameters", parameter_count(*model)},
                    {"prompt_ids_per_second", speed.prompt},
                    {"cached_ids_per_second", speed.cached},
                    {"whole_ids_per_second", speed.whole}});
    if (flags.json) continue;
    fmt::print("{} {:>7} {:>12.0f} {:>12.1f} {:>12.2f} {:>7.1f}x\n", first_column(size.label),
               fmt::format("{}/{}", config.layers, config.width), speed.prompt, speed.cached,
               speed.whole, speed.cached / speed.whole);
    std::fflush(stdout);
  }
  if (flags.json)
    fmt::print("{}\n", nlohmann::json{{"context", flags.length},
                                      {"vocabulary", flags.vocabulary},
                                      {"threads", torch::get_num_threads()},
                                      {"generation", rows}}
                           .dump(2));
}

}  // namespace geores::cli
