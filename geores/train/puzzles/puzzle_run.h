// The folder of a run of a recursive model on puzzles:
// config.json              the requested configuration, and the fingerprint of the data set
// model.json               the model that was built
// metrics.jsonl            one object a line: sums of training since the last line, or an
//                                                       evaluation
// checkpoint.safetensors   weights, average, moments, table, carry (with the position of every row
//                                                       in its random numbers) and step; the order
//                            of puzzles is a function of
//                                                       seed and step. float32 values that fit into
//                            bfloat16 are stored so.
//                                                       The previous checkpoint is kept too.
//   result.json              written once, at the end
//   in_use.lock, .starting/  as in other runs (train/run/run_folder.h)
// A run that was killed at any moment and resumed has bit for bit the result of an uninterrupted
// run, on the same machine and number of threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "geores/puzzles/dataset.h"
#include "geores/train/puzzles/puzzle_config.h"
#include "geores/train/run/run_folder.h"

namespace geores {

class PuzzleFiles {
 public:
  // Refuses to mix runs: an existing run is continued with the same configuration and data, or
  // replaced at the first checkpoint. An empty path keeps everything in memory.
  PuzzleFiles(const RunFolder& folder, const PuzzleConfig& config, const std::string& fingerprint,
              const Notice& notice);
  ~PuzzleFiles();  // removes a new run without a checkpoint or a result
  PuzzleFiles(const PuzzleFiles&) = delete;
  PuzzleFiles& operator=(const PuzzleFiles&) = delete;

  // True until the first checkpoint: the folder holds nothing of this run yet.
  bool is_starting() const { return starting_; }

  // The number of steps taken; 0 without a checkpoint.
  int64_t resume(Recursive& model, RecursiveStep& training);

  void save_checkpoint(const Recursive& model, RecursiveStep& training, int64_t step);
  void write_model(const nlohmann::json& description);
  void write_metrics(const nlohmann::json& line) { metrics_.write(line); }
  void write_result(const nlohmann::json& result);
  const MetricsLog& metrics() const { return metrics_; }

 private:
  std::string path(const char* name) const;
  bool in_memory() const { return folder_.path.empty(); }
  void prepare(const PuzzleConfig& config, const std::string& fingerprint);
  void replace_old_run();

  RunFolder folder_;
  Notice notice_;
  std::unique_ptr<FolderLock> lock_;
  bool starting_ = false;
  bool newest_is_good_ = false;  // this process wrote the newest checkpoint or has read it
  MetricsLog metrics_;
};

// The configuration of the run in a folder.
PuzzleConfig read_puzzle_config(const std::string& path);

// Whether the folder holds a run on puzzles.
bool is_puzzle_run(const std::string& path);

// The model of a finished or interrupted run with its averaged weights.
struct LoadedPuzzleRun {
  PuzzleConfig config;
  std::shared_ptr<Recursive> model;
  int64_t step = 0;
  std::string fingerprint = {};  // of the data set that it was trained on
};
LoadedPuzzleRun load_puzzle_run(const std::string& path, const std::string& device = "cpu");

}  // namespace geores
