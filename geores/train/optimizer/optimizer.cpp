#include "geores/train/optimizer/optimizer.h"

#include "geores/base/error.h"
#include "geores/train/optimizer/adam_atan2.h"
#include "geores/train/optimizer/adamw.h"

namespace geores {

Optimizer::Optimizer(FlatParameters& parameters, const OptimizerOptions& options)
    : parameters_(parameters),
      options_(options),
      first_moment_(torch::zeros_like(parameters.values())),
      second_moment_(torch::zeros_like(parameters.values())) {}

std::unique_ptr<Optimizer> make_optimizer(FlatParameters& parameters,
                                          const OptimizerOptions& options) {
  if (options.method == "adam_atan2") return std::make_unique<AdamAtan2>(parameters, options);
  require(options.method == "adamw" || options.method == "muon", "train", "unknown optimiser '{}'",
          options.method);
  return std::make_unique<AdamW>(parameters, options);
}

}  // namespace geores
