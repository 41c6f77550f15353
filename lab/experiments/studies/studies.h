// Studies of mixers in recursive models, on puzzles, as data: arms that differ only in the mixer,
// at the same width and about the same number of parameters, trained on the same rows in the same
// order for the same number of steps, each with several seeds. JPmHC (arXiv:2602.18308) compares
// two mixers with each other; these studies add an arm without a mixer, the identity with the same
// routes, and Sinkhorn's matrix with the Cayley arm's routes.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "geores/puzzles/dataset.h"
#include "geores/train/run/train_config.h"
#include "lab/experiments/reproduce.h"

namespace geores {

// One model. `config` holds keys of a run on puzzles; the hidden width of its MLP matches the number of
// parameters of the arm without a mixer.
struct StudyArm {
  std::string name, label;
  nlohmann::json config;
  bool extra = false;  // trained only on request
};

// The puzzles of a study, generated once.
struct StudyData {
  std::string kind = {};             // sudoku, maze or arc
  int size = 0;                      // of the board, the maze, or ARC's canvas
  std::vector<int64_t> rounds = {};  // sudoku: hardening rounds; several: one data set each
  int64_t clues = 0;                 // sudoku: easier puzzles for a pilot; 0: minimal
  int64_t train = 0, test = 0;       // puzzles
  int64_t variants = 0;              // of a training sudoku, or of an ARC task
};

struct Study {
  std::string name, title;
  std::string text;  // the question, and notes for reading the answer
  StudyData data;
  nlohmann::json config;     // common to all arms: keys of a run on puzzles
  int64_t plain_hidden = 0;  // of the MLP of the arm without a mixer
  std::vector<StudyArm> arms;
  std::string scale = "paper";

  const StudyArm& arm(const std::string& name) const;
  // The arms with these names; without names all but extra ones.
  std::vector<const StudyArm*> chosen(const std::vector<std::string>& names) const;
};

// At the size for a GPU, except for s4; `quick` runs in minutes on two cores, as a trial.
const std::vector<Study>& puzzle_studies();
Study quick_study(const Study& study);
const Study& find_study(const std::string& name);

// Whether a study tests the difference between an arm and this one: the arm without a mixer, a
// control, or a comparison of JPmHC's paper.
bool is_compared(const std::string& arm, const std::string& base);

struct StudyOptions {
  std::string out = "study";
  std::string arc_tasks = {};          // folder with ARC's JSON files, for a study on ARC
  std::vector<std::string> arms = {};  // empty: all but extra ones
  std::vector<int64_t> seeds = {1, 2, 3};
  nlohmann::json changes = nlohmann::json::object();  // keys of a run on puzzles, for pilots
  int jobs = 1;
  Hardware hardware = {};
};

TrainConfig study_config(const Study& study, const StudyArm& arm, int64_t seed,
                         const StudyOptions& options, const std::string& data);

// Creates the data set in `folder` unless it exists.
void make_study_data(const StudyData& data, const std::string& folder,
                     const std::string& arc_tasks);

// Trains the runs without a result in OUT/runs, and returns the results of all finished runs:
//   arms: {NAME: {label, parameters, seconds a step, for each number of an evaluation its values, mean
//          and deviation, and the learning curve of each run}}
//   plain: predictors without a model (puzzles/scoring/plain_scores.h)
//   differences: Welch's t in exact answers, between each arm and the one without a mixer, and between
//          arms and their controls
// OUT/index.html, OUT/tables.md and OUT/results.json hold the same. For ARC every arm is also
// evaluated with blank and with shuffled identifiers. nullopt if the listener stopped it:
// interrupted runs have a checkpoint, and the report covers the finished ones.
std::optional<nlohmann::json> run_study(const Study& study, const StudyOptions& options,
                                        const ReproduceListener& listener = {});

}  // namespace geores
