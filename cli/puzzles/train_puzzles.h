// The part of `geores train` for task puzzles: its own configuration, data and trainer.
#pragma once

#include <string>

#include "cli/field_flags.h"
#include "cli/processes/in_group.h"

namespace geores::cli {

struct PuzzleTraining {
  GivenFlags given;
  std::string config, out, resume;
  bool overwrite = false, json = false;
};

// Whether these flags ask for puzzles: by --task, or because the run to resume is one.
bool asks_for_puzzles(const PuzzleTraining& flags);

int train_on_puzzles(const PuzzleTraining& flags, CommandGroup& group);

}  // namespace geores::cli
