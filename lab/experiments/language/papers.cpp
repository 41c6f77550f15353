#include "lab/experiments/language/papers.h"

#include <fmt/format.h>

#include <algorithm>

#include "geores/base/error.h"
#include "geores/base/nearest.h"

namespace geores {
namespace {

constexpr int64_t kStepsOfASpeed = 20;  // arms with this many steps are only timed

}  // namespace

const Experiment& LanguagePaper::experiment(const std::string& wanted) const {
  const auto found = std::ranges::find(experiments, wanted, &Experiment::name);
  std::vector<std::string> known;
  for (const auto& one : experiments) known.push_back(one.name);
  require(found != experiments.end(), "reproduce", "unknown experiment '{}'{}", wanted,
          did_you_mean(wanted, known));
  return *found;
}

void LanguagePaper::set_steps(int64_t steps) {
  require(steps >= 1, "reproduce", "--steps must be >= 1, got {}", steps);
  for (auto& experiment : experiments)
    for (auto& arm : experiment.arms) {
      const auto before = arm.config.at("steps").get<int64_t>();
      if (before <= kStepsOfASpeed) continue;
      arm.config["steps"] = steps;
      for (const auto* key : {"warmup", "eval_interval", "checkpoint_interval"})
        if (arm.config.contains(key))
          arm.config[key] = std::max<int64_t>(1, arm.config[key].get<int64_t>() * steps / before);
    }
}

std::vector<std::string> language_papers() { return {"mgt", "shc", "nanogpt"}; }

LanguagePaper language_paper(const std::string& name, const std::string& scale,
                             const std::string& data) {
  const auto known = language_papers();
  require(std::ranges::count(known, name) > 0, "reproduce", "unknown paper '{}'{}", name,
          did_you_mean(name, known));
  language_scale(scale);  // throws for another scale
  if (name == "nanogpt") return nanogpt_paper(scale, data);
  return name == "mgt" ? mgt_paper(scale, data) : shc_paper(scale, data);
}

Scale language_scale(const std::string& name) {
  require(name == "quick" || name == "cpu" || name == "gpu", "reproduce",
          "scale must be quick, cpu or gpu for a language model, got '{}'", name);
  Scale scale;
  scale.name = name;
  scale.all_seeds = name != "quick";
  return scale;
}

nlohmann::json text_task(const std::string& data, const std::string& name, int64_t context,
                         int64_t validation_ids) {
  nlohmann::json task = {{"task", "text"}, {"data", data + "/" + name}, {"context", context}};
  if (validation_ids > 0) task["validation_ids"] = validation_ids;
  return task;
}

std::string scored_part(const Experiment& experiment) {
  for (const auto& column : experiment.columns)
    if (const auto ids = column.config.value("validation_ids", int64_t{0}); ids > 0)
      return fmt::format("the first {} ids of the validation text", ids);
  return "the whole validation set";
}

Arm with_long_warmup(Arm arm, int64_t times) {
  arm.name += "_warm";
  arm.label += fmt::format(", warm-up × {}", times);
  arm.config["warmup"] = times * arm.config.at("warmup").get<int64_t>();
  return arm;
}

}  // namespace geores
