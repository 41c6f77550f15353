#include "geores/train/meters/beta.h"
#include "geores/train/meters/gamma.h"
#include "geores/train/meters/gradient_norm.h"
#include "geores/train/meters/learning_rate.h"
#include "geores/train/meters/loss.h"
#include "geores/train/meters/meter.h"
#include "geores/train/meters/parameter_norm.h"
#include "geores/train/meters/seconds.h"
#include "geores/train/meters/tokens_per_second.h"
#include "geores/train/meters/train_loss.h"
#include "geores/train/meters/validation.h"

namespace geores {

const Meters& meters() {
  static const Meters all = {
      loss_meter(),           learning_rate_meter(), gradient_norm_meter(),
      parameter_norm_meter(), seconds_meter(),       tokens_per_second_meter(),
      validation_meter(),     train_loss_meter(),    gamma_meter(),
      beta_meter(),
  };
  return all;
}

const Trace& EvaluationReading::probes() const {
  if (!probes_) {
    const torch::NoGradGuard no_grad;
    probes_ = std::make_unique<Trace>(/*probing=*/true);
    model.predict(sample_, *probes_);
  }
  return *probes_;
}

namespace {

template <class Reading>
nlohmann::json read_all(const Meters& all, const Reading& reading,
                        nlohmann::json (*Meter::*read)(const Reading&)) {
  nlohmann::json line = {{"step", reading.step}};
  for (const auto& meter : all) {
    if (meter.*read == nullptr) continue;
    if (auto value = (meter.*read)(reading); !value.is_null()) line[meter.key] = std::move(value);
  }
  return line;
}

}  // namespace

nlohmann::json read_meters(const Meters& all, const StepReading& reading) {
  return read_all(all, reading, &Meter::after_step);
}

nlohmann::json read_meters(const Meters& all, const EvaluationReading& reading) {
  return read_all(all, reading, &Meter::at_evaluation);
}

}  // namespace geores
