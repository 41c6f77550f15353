// The measurements on a finished run, with its best weights:
//   mixers, ranks, beta   at the start and at the end, as in diagnostics.jsonl: {"start", "end"}
//   use                   the loss with every mixer replaced (diagnostics/mixer_report.h)
//   gradients             norms before clipping: {"gradient_norms"}
//   accuracy              of tasks on tokens other than text: the share of targets predicted
//   other_texts           of text: {"other_texts": {NAME: {nats, bits_per_byte, word_perplexity}}} for
//                         every folder in DATA-other
//   sample                of text: 300 ids written by the model
//   text                  of text: {"text": {ids, bytes, words}} of the validation split
// {"parts"} lists the requested ones, whether or not they apply to the run.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/data/dataset.h"

namespace geores {

// `before_each_part` is called before each long part; it may throw to stop the measurement.
nlohmann::json measure_run(
    const std::string& run_folder, const std::vector<std::string>& what, const Dataset& dataset,
    const std::string& device, const std::function<void()>& before_each_part = [] {});

}  // namespace geores
