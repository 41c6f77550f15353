// What a run may be made of: kinds of models and meters. A program with a model or a meter of its
// own copies the built-in catalogue, adds to it, and gives it to train(), read_run_config() and
// load_run().
#pragma once

#include "geores/model/registry.h"
#include "geores/train/meters/meter.h"

namespace geores {

struct Catalogue {
  ModelKinds models = model_kinds();
  Meters meters = geores::meters();
};

// What this library has.
const Catalogue& built_in();

}  // namespace geores
