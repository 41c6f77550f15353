// `geores eval` on text: the exact loss of a run, compared with tables of counts.
#pragma once

#include <optional>
#include <string>

#include "geores/train/run/run_folder.h"

namespace geores::cli {

struct EvalTextFlags {
  std::string run, data, split = "val", device = "cpu";
  std::optional<int64_t> stride;  // none: the context
  int64_t ngrams = 6;             // longest
  bool json = false;
};

void evaluate_text(const LoadedRun& run, const EvalTextFlags& flags);

}  // namespace geores::cli
