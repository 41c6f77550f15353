#include "lab/benchmark/generation_benchmark.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/generation/generator.h"
#include "lab/benchmark/seconds_of.h"

namespace geores {
namespace {

// The model is not trained: which ids it reads does not matter, as long as they differ.
Ids some_ids(int64_t count, int64_t vocabulary) {
  Ids ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<uint16_t>(i * 7919 % vocabulary));
  return ids;
}

}  // namespace

GenerationSpeed generation_speed(Model& model, int64_t passes) {
  const auto context = model.input().length;
  require(passes >= 1 && context >= 4, "bench",
          "--generate needs a context of at least 4 and a pass, got {} and {}", context, passes);
  const auto prompt = some_ids(context / 2, model.input().vocabulary);
  const GenerationOptions cached{.sampling = {.temperature = 0}};
  const GenerationOptions whole{.sampling = {.temperature = 0}, .cache = false};
  Generator(model, prompt, whole).next();  // memory and threads are there afterwards
  Generator generator(model, prompt, cached);
  GenerationSpeed speed;
  speed.prompt = static_cast<double>(prompt.size()) / seconds_of([&] { generator.next(); });

  const auto steps = context - static_cast<int64_t>(prompt.size()) - 1;
  passes = std::min(passes, steps);
  double with = 0, without = 0;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const auto first = steps * pass / passes, last = steps * (pass + 1) / passes;
    with += seconds_of([&] {
      for (auto step = first; step < last; ++step) generator.next();
    });
    Generator again(model, generator.ids(), whole);
    without += seconds_of([&] { again.next(); });
  }
  speed.cached = static_cast<double>(steps) / with;
  speed.whole = static_cast<double>(passes) / without;
  return speed;
}

}  // namespace geores
