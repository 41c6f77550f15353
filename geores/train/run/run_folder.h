// The files of a run. Only this class knows their names, and only its owner writes them:
// config.json              the requested configuration; a data folder by its absolute path
// model.json               the model that was built: kind, parameters, shape of the data, heads
//   metrics.jsonl            one object a line: {"step", "loss", "lr", ...} of a training step or
//                            {"step", "validation", ...} of an evaluation; the keys are the meters'
//   checkpoint.safetensors   weights, moments, carry, step and best so far (checkpoint.h). Batches
//                            are a function of seed and step: there is no generator to save.
//   best.safetensors         weights of the best evaluation
//   result.json              written once, at the end
// diagnostics.jsonl        mixers, ranks and β at evaluations, if requested (DiagnosticsLog)
// in_use.lock              while a process trains: its identity (base/files/folder_lock.h)
// .starting/               a new run until its first checkpoint. Then its files replace those of
//                                                       the old run, which is untouched until then.
//   tokenizer.json, .model   of a text: copies, so that the run can be used without its data
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "geores/base/files/folder_lock.h"
#include "geores/train/run/checkpoint.h"
#include "geores/train/run/metrics_log.h"
#include "geores/train/run/train_config.h"

namespace geores {

// The folder of a run and how to open it.
struct RunFolder {
  std::string path = {};  // "" keeps everything in memory: no files, no resume
  bool resume = false;
  bool overwrite = false;
};

using Notice = std::function<void(const std::string&)>;

class RunFiles {
 public:
  // Refuses to mix runs: an existing run is continued with the same configuration, or replaced.
  // Only the data folder of a text or of puzzles may differ, if it holds the same data; the run then
  // records the new one. A run without a checkpoint is replaced without asking. After continuing, model,
  // training state and position() are those of the last checkpoint. A folder that another process
  // trains in is refused.
  RunFiles(const RunFolder& folder, const TrainConfig& config, const Catalogue& catalogue,
           const InputShape& data, const DataOrigin& origin, Model& model, TrainingStep& training,
           const Notice& notice);
  ~RunFiles();  // removes a new run without a checkpoint or a result
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  // True until the first checkpoint: the folder holds nothing of this run yet.
  bool is_starting() const { return starting_; }
  std::filesystem::path folder() const;  // where its files are now; "" in memory

  const RunPosition& position() const { return position_; }
  const MetricsLog& metrics() const { return metrics_; }

  // Without a folder there is nothing to resume, and restore() does nothing.
  void save_checkpoint(const Model& model, TrainingStep& training, const RunPosition& position);
  void write_metrics(const nlohmann::json& line) { metrics_.write(line); }
  void write_result(const nlohmann::json& result);

  void keep_best(const Model& model, int64_t step);
  void load_best(
      Model& model) const;  // the weights of the last keep_best(), also of an earlier leg

 private:
  bool in_memory() const { return folder_.path.empty(); }
  std::string path(const char* name) const;
  void open_folder();
  void require_same(const nlohmann::json& before, const nlohmann::json& wanted) const;
  void continue_run(const TrainConfig& config, Model& model, TrainingStep& training);
  void require_same_origin(const DataOrigin& origin) const;

  RunFolder folder_;
  Notice notice_;
  std::unique_ptr<FolderLock> lock_;
  bool starting_ = false;
  bool newest_is_good_ = false;  // this process wrote the newest checkpoint or has read it
  RunPosition position_;
  MetricsLog metrics_;
  std::vector<std::byte> best_;  // the contents of best.safetensors, without a folder
};

// Whether there is a run to continue. Completes an interrupted replacement (starting_folder.h).
bool holds_run(const std::string& path);

// Requires a checkpoint. A run that was copied without its weights cannot be continued.
bool can_resume(const std::string& path);

// The configuration of the run in a folder.
TrainConfig read_run_config(const std::string& path, const Catalogue& catalogue = built_in());

// The model of a finished or interrupted run, with the weights of its best evaluation if there are
// any, else of its last checkpoint, averaged where the run averages them; and its configuration. The
// run's data is read only for an old run without model.json.
struct LoadedRun {
  TrainConfig config;
  std::shared_ptr<Model> model;
  int64_t step = 0;
  nlohmann::json origin = nullptr;  // of its data (DataOrigin::facts)
};
LoadedRun load_run(const std::string& path, const std::string& cache = "",
                   const Catalogue& catalogue = built_in());

}  // namespace geores
