// The kinds of models and meters that a run may use. A program with its own model or meter copies
// the built-in catalogue, adds to it, and passes it to train(), read_run_config() and load_run().
#pragma once

#include "geores/model/registry.h"
#include "geores/train/meters/meter.h"

namespace geores {

struct Catalogue {
  ModelKinds models = model_kinds();
  Meters meters = geores::meters();
};

// The catalogue of this library.
const Catalogue& built_in();

}  // namespace geores
