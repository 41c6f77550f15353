// The widget with a model: predict. One instance of this module holds one model at most.
//
// The page copies a safetensors file to predictor_buffer(bytes) and, unless the file's metadata has
// its configuration under "config", the text of config.json to predictor_config_buffer(bytes), and
// calls predictor_load(). Sequences are in fixed buffers, a state a row of `width` values: `width` is
// the model's input width, or what `path` was given.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>

#include "geores/portable/model.h"
#include "geores/portable/predictors.h"
#include "web/wasm/exports.h"

using namespace geores::portable;

namespace {

constexpr int kLongest = 256;
constexpr int kWidest = 64;
constexpr int kRules = 4;

double inputs[kLongest * kWidest], targets[kLongest * kWidest], outputs[kLongest * kWidest];
double rule_outputs[kRules * kLongest * kWidest];
int row_width = 16;

// A file of the page, until a model was made of it.
struct File {
  Arena arena;
  std::byte* bytes = nullptr;
  std::size_t size = 0;

  std::byte* empty(int wanted) {
    arena.clear();
    size = static_cast<std::size_t>(std::max(wanted, 0));
    return bytes = static_cast<std::byte*>(arena.bytes(size, 1));
  }
};

File weights_file, config_file;
std::optional<Model> model;
double parameter_count = 0;
Arena probe_arena;
double* probes = nullptr;

int length_of(double asked) {
  const int most = model ? std::min(kLongest, model->context()) : kLongest;
  refuse_unless(asked >= 1 && asked <= most, "predict", "length must be 1 ... {}, got {}",
                {most, asked});
  return static_cast<int>(asked);
}

// Mean squared error of each row of y, and their mean over the first `length`.
double errors_of(const double* y, int length, double* errors) {
  double sum = 0;
  for (int t = 0; t < kLongest; ++t) {
    errors[t] = 0;
    if (t >= length) continue;
    for (int i = 0; i < row_width; ++i) {
      const double apart = y[t * row_width + i] - targets[t * row_width + i];
      errors[t] += apart * apart / row_width;
    }
    sum += errors[t];
  }
  return sum / length;
}

// The input at each position: the states shown and, where predictions are fed back, the
// predictor's own answers after them.
template <class Step>
void run_fed_back(int length, int shown, bool feed, double* seen, double* y, const Step& step) {
  for (int t = 0; t < length; ++t) {
    const double* source =
        feed && t >= shown && t > 0 ? y + (t - 1) * row_width : inputs + t * row_width;
    std::copy_n(source, row_width, seen + t * row_width);
    step(t, seen, y + t * row_width);
  }
}

void run_rules(int length, int shown, bool feed, double* mse, double* errors) {
  static double seen[kLongest * kWidest];
  for (int rule = 0; rule < kRules; ++rule) {
    double* y = rule_outputs + rule * length * row_width;
    run_fed_back(length, shown, feed, seen, y, [&](int t, const double* x, double* next) {
      predict_next(static_cast<Rule>(rule), x, t, row_width, next);
    });
    mse[rule] = errors_of(y, length, errors + rule * kLongest);
  }
}

void run_model(int length, int shown, bool feed) {
  static double seen[kLongest * kWidest];
  if (!feed || !model->causal()) {
    model->forward(inputs, 0, length, outputs);
  } else {
    run_fed_back(length, shown, true, seen, outputs, [&](int t, const double* x, double* next) {
      model->forward(x + t * row_width, t, t + 1, next);
    });
  }
  const int operators = model->operators();
  for (int t = 0; t < length; ++t)
    for (int op = 0; op < operators; ++op) {
      const auto probe = model->probe(op, t);
      double* to = probes + (static_cast<std::size_t>(t) * operators + op) * 3;
      to[0] = probe.gamma;
      to[1] = probe.beta;
      to[2] = probe.angle;
    }
}

}  // namespace

GEORES_EXPORTED(predictor_buffer) std::byte* predictor_buffer(int bytes) {
  return weights_file.empty(bytes);
}

GEORES_EXPORTED(predictor_config_buffer) std::byte* predictor_config_buffer(int bytes) {
  return config_file.empty(bytes);
}

GEORES_EXPORTED(predictor_load) void predictor_load() {
  model.reset();
  {
    const Weights weights({weights_file.bytes, weights_file.size}, "weights");
    const std::string_view text =
        config_file.size == 0
            ? weights.metadata("config")
            : std::string_view(reinterpret_cast<const char*>(config_file.bytes), config_file.size);
    refuse_unless(!text.empty(), "weights", "have no configuration with them");
    model.emplace(weights, JsonDocument(text, "config.json").root());
    parameter_count = static_cast<double>(weights.parameters());
  }
  weights_file.empty(0);  // the model has its own copy
  const int width = model->input_width(), operators = model->operators();
  if (width > kWidest) model.reset();
  refuse_unless(width <= kWidest, "model", "takes vectors of {} values, at most {}",
                {width, kWidest});
  row_width = width;
  probe_arena.clear();
  probes = probe_arena.doubles(static_cast<std::size_t>(kLongest) * operators * 3);
}

GEORES_EXPORTED(predictor_inputs) double* predictor_inputs() { return inputs; }
GEORES_EXPORTED(predictor_targets) double* predictor_targets() { return targets; }
GEORES_EXPORTED(predictor_outputs) double* predictor_outputs() { return outputs; }
GEORES_EXPORTED(predictor_probes) double* predictor_probes() { return probes; }
GEORES_EXPORTED(predictor_rules) double* predictor_rules() { return rule_outputs; }

#define MODEL_FIELDS(IN, OUT) \
  OUT(layers, 1)              \
  OUT(width, 1)               \
  OUT(streams, 1)             \
  OUT(input_width, 1)         \
  OUT(context, 1) OUT(operators, 1) OUT(gated, 1) OUT(rotates, 1) OUT(causal, 1) OUT(parameters, 1)

GEORES_EXPORT(predictor_model, MODEL_FIELDS) {
  refuse_unless(model.has_value(), "model", "none is loaded");
  predictor_model.layers = model->layers();
  predictor_model.width = model->width();
  predictor_model.streams = model->streams();
  predictor_model.input_width = model->input_width();
  predictor_model.context = model->context();
  predictor_model.operators = model->operators();
  const double zero[kWidest] = {};
  double y[kWidest];
  model->forward(zero, 0, 1, y);
  const auto probe = model->probe(0, 0);
  predictor_model.gated = std::isnan(probe.gamma) ? 0 : 1;
  predictor_model.rotates = std::isnan(probe.angle) ? 0 : 1;
  predictor_model.causal = model->causal() ? 1 : 0;
  predictor_model.parameters = parameter_count;
}

#define PATH_FIELDS(IN, OUT) \
  IN(i, 1) IN(j, 1) IN(x, 1) IN(y, 1) IN(theta, 1) IN(length, 1) IN(width, 1) OUT(shown_missing, 1)

// A state that turns in the plane of axes i and j by theta a step, as the task gyroscope makes
// them; the rest of (x, y) to length 1 is on the first other axis.
GEORES_EXPORT(path, PATH_FIELDS) {
  const int width = static_cast<int>(path.width), length = length_of(path.length);
  const int i = static_cast<int>(path.i), j = static_cast<int>(path.j);
  refuse_unless(width >= 3 && width <= kWidest, "path", "width must be 3 ... {}, got {}",
                {kWidest, width});
  refuse_unless(i >= 0 && j >= 0 && i < width && j < width && i != j, "path",
                "axes {} and {} are not two of {}", {i, j, width});
  row_width = width;
  int third = 0;
  while (third == i || third == j) ++third;
  const double rest = 1 - path.x * path.x - path.y * path.y;
  path.shown_missing = rest > 0 ? std::sqrt(rest) : 0;
  std::fill_n(inputs, width, 0.0);
  inputs[i] = path.x;
  inputs[j] = path.y;
  inputs[third] = path.shown_missing;
  const double cosine = std::cos(path.theta), sine = std::sin(path.theta);
  for (int t = 0; t < length; ++t) {
    const double* now = inputs + t * width;
    double* next = targets + t * width;
    std::copy_n(now, width, next);
    next[i] = cosine * now[i] - sine * now[j];
    next[j] = sine * now[i] + cosine * now[j];
    if (t + 1 < length) std::copy_n(next, width, inputs + (t + 1) * width);
  }
}

#define PREDICT_FIELDS(IN, OUT) \
  IN(length, 1)                 \
  IN(shown, 1)                  \
  IN(feed, 1) OUT(model_mse, 1) OUT(rules_mse, 4) OUT(errors, 256) OUT(rules_errors, 1024)

GEORES_EXPORT(predict, PREDICT_FIELDS) {
  refuse_unless(model.has_value(), "model", "none is loaded");
  refuse_unless(row_width == model->input_width(), "predict",
                "the states have {} values, the model takes {}", {row_width, model->input_width()});
  const int length = length_of(predict.length), shown = static_cast<int>(predict.shown);
  const bool feed = predict.feed != 0;
  run_model(length, shown, feed);
  predict.model_mse = errors_of(outputs, length, predict.errors.at);
  run_rules(length, shown, feed, predict.rules_mse.at, predict.rules_errors.at);
}

#define RULES_FIELDS(IN, OUT) \
  IN(length, 1) IN(shown, 1) IN(feed, 1) OUT(rules_mse, 4) OUT(rules_errors, 1024)

GEORES_EXPORT(rules, RULES_FIELDS) {
  run_rules(length_of(rules.length), static_cast<int>(rules.shown), rules.feed != 0,
            rules.rules_mse.at, rules.rules_errors.at);
}
