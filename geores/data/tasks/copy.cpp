#include "geores/data/tasks/copy.h"

#include "geores/base/error.h"
#include "geores/data/generated.h"

namespace geores {
namespace {

struct CopyOptions {
  GeneratedOptions sizes = {.train_sequences = 9000, .validation_sequences = 1000, .length = 64};
  int64_t vocabulary = 32;

  Fields fields() {
    return sizes.fields().add("vocabulary", vocabulary, "number of tokens",
                              {.min = 1, .max = 65536});  // exact as a float up to 2^24
  }
};

Trajectories draw_copy(NumpyRandom& random, int64_t count, const CopyOptions& options) {
  Trajectories result(count, options.sizes.length, 1);
  for (int64_t n = 0; n < count; ++n) {
    std::vector<double> tokens(static_cast<std::size_t>(options.sizes.length / 2));
    for (double& token : tokens) token = static_cast<double>(random.randint(0, options.vocabulary));
    result.append(tokens);
    result.append(tokens);
  }
  return result;
}

Dataset load_copy(const nlohmann::json& given, const std::string& cache) {
  CopyOptions options;
  options.fields().read(given, "copy");
  const auto length = options.sizes.length;
  require(length % 2 == 0, "copy", "'length' must be even, got {}", length);
  return load_generated(
      {.task = "copy",
       .options = given,
       .sizes = options.sizes,
       .vocabulary = options.vocabulary,
       .draw = [&](NumpyRandom& random,
                   int64_t count) { return draw_copy(random, count, options); },
       .mask = [&](Tensor& targets) { targets.narrow(1, 0, length / 2 - 1).fill_(-1); }},
      cache);
}

}  // namespace

Task copy_task() {
  return {.name = "copy",
          .summary = "repeat the first half of a sequence of random tokens",
          .options = OptionSet::of<CopyOptions>(),
          .load = load_copy};
}

}  // namespace geores
