// Experiments with language models as data: MGT's five ("Geometric and Dynamic Scaling in Deep
// Transformers"), those of sHC (arXiv:2603.20896), and parity with nanoGPT, with the controls that
// the papers lack. MGT only gives protocols, and the contents of sHC's tables are not available:
// their claims can be judged.
//
// Scales: quick (two cores, minutes; its numbers mean nothing), cpu (two cores, hours; small models
// with three seeds, whose numbers can be compared with each other) and gpu (one H200). All sizes are
// in the arms and columns.
#pragma once

#include <string>
#include <vector>

#include "lab/experiments/arms.h"
#include "lab/experiments/experiment.h"

namespace geores {

struct LanguagePaper {
  std::string name, title;
  std::string text;  // notes for reading the report
  std::vector<Experiment> experiments;
  std::vector<Claim> claims;  // of settled experiments (sweep.h)

  const Experiment& experiment(const std::string& name) const;

  // Changes the number of steps, with warm-up, evaluations and checkpoints in proportion.
  void set_steps(int64_t steps);
};

std::vector<std::string> language_papers();  // mgt, shc, nanogpt

// `data`: the folder of prepared texts, each as `geores data text` creates them: shakespeare_char,
// at scale gpu wiki2 and books, and for `read_once` at scale cpu books_bytes. NAME-shuffled holds
// the same ids in random order and is created if missing (shuffled_text.h); NAME-other may hold
// folders of other texts with NAME's tokeniser, on which finished models are evaluated.
LanguagePaper language_paper(const std::string& name, const std::string& scale,
                             const std::string& data);

LanguagePaper mgt_paper(const std::string& scale, const std::string& data);
LanguagePaper shc_paper(const std::string& scale, const std::string& data);
LanguagePaper nanogpt_paper(const std::string& scale, const std::string& data);

// Scale of the engine: all sizes are in the experiments, and quick uses one seed.
Scale language_scale(const std::string& name);

// The task text on DATA/NAME. Losses are over the first `validation_ids` ids; 0: over all.
nlohmann::json text_task(const std::string& data, const std::string& name, int64_t context,
                         int64_t validation_ids = 0);

// "the whole validation set", or "the first 32768 ids of the validation text".
std::string scored_part(const Experiment& experiment);

// NAME_warm: the same arm with `times` the warm-up. Warm-up is a share of the steps; a short
// training may have too few for a rate that a longer one tolerates, and a difference at such a rate
// is then due to the schedule.
Arm with_long_warmup(Arm arm, int64_t times);

}  // namespace geores
