// The files of a run. Only this knows their names, and only who owns one writes:
//   config.json              what was asked for; a folder of data by its absolute path
//   model.json               what was built: kind, parameters, shape of the data, heads in use
//   metrics.jsonl            one object a line: {"step", "loss", "lr", ...} of a training step or
//                            {"step", "validation", ...} of an evaluation; the keys are the meters'
//   checkpoint.safetensors   weights, moments, carry, step and best so far (checkpoint.h). Batches
//                            are a function of seed and step: there is no generator to save.
//   best.safetensors         weights of the best evaluation
//   result.json              written once, at the end
//   diagnostics.jsonl        mixers, ranks and β at evaluations, if asked for (DiagnosticsLog)
//   in_use.lock              while a process trains: who it is (base/files/folder_lock.h)
//   .starting/               a new run until its first checkpoint. Then its files replace those of
//                            the run that was there; until then that run is untouched.
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

// Where a run is to be.
struct RunFolder {
  std::string path = {};  // "" keeps everything in memory: no files, no resume
  bool resume = false;
  bool overwrite = false;
};

using Notice = std::function<void(const std::string&)>;

class RunFiles {
 public:
  // Refuses to mix runs: an existing one is continued with the same configuration, or replaced. Only
  // the folder of a text may be another if the same ids are in it: the run remembers the new one. One
  // without a checkpoint is replaced without asking: there is nothing to lose. Continued, model and
  // training are as its last checkpoint left them, and position() too. A folder that another process
  // trains in is refused.
  RunFiles(const RunFolder& folder, const TrainConfig& config, const Catalogue& catalogue,
           const InputShape& data, const DataOrigin& origin, Model& model, TrainingStep& training,
           const Notice& notice);
  ~RunFiles();  // a new run without a checkpoint or a result leaves nothing
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  // Nothing of this run is in its folder yet: the first checkpoint puts it there.
  bool is_starting() const { return starting_; }
  std::filesystem::path folder() const;  // where its files are now; "" in memory

  const RunPosition& position() const { return position_; }
  const MetricsLog& metrics() const { return metrics_; }

  // Without a folder there is nothing to continue from, and the first does nothing.
  void save_checkpoint(const Model& model, TrainingStep& training, const RunPosition& position);
  void write_metrics(const nlohmann::json& line) { metrics_.write(line); }
  void write_result(const nlohmann::json& result);

  void keep_best(const Model& model, int64_t step);
  void load_best(Model& model) const;  // the weights of the last keep_best, of an earlier leg too

 private:
  bool in_memory() const { return folder_.path.empty(); }
  std::string path(const char* name) const;
  void open_folder();
  void require_same(const nlohmann::json& before, const nlohmann::json& wanted) const;
  nlohmann::json origin_before() const;  // of the data, as model.json has it
  void continue_run(const TrainConfig& config, Model& model, TrainingStep& training);
  void require_same_origin(const DataOrigin& origin) const;

  RunFolder folder_;
  Notice notice_;
  std::unique_ptr<FolderLock> lock_;
  bool starting_ = false;
  bool newest_is_good_ = false;  // this process wrote the newest checkpoint or has read it
  RunPosition position_;
  MetricsLog metrics_;
  std::vector<std::byte> best_;  // without a folder: what its file would hold
};

// There is a run to continue. Finishes what a killed process left half done (starting_folder.h).
bool holds_run(const std::string& path);

// It also has a checkpoint. One that was copied without its weights cannot be continued.
bool can_resume(const std::string& path);

// The configuration of the run in a folder.
TrainConfig read_run_config(const std::string& path, const Catalogue& catalogue = built_in());

// The model of a finished or interrupted run, with the weights of its best evaluation if there are
// any, else of its last checkpoint; and its configuration. The run's data is read only if the run
// is so old that it has no model.json.
struct LoadedRun {
  TrainConfig config;
  std::shared_ptr<Model> model;
  int64_t step = 0;
};
LoadedRun load_run(const std::string& path, const std::string& cache = "",
                   const Catalogue& catalogue = built_in());

}  // namespace geores
