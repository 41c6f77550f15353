#include "geores/portable/summary.h"

#include <algorithm>

#include "geores/base/refusal.h"

namespace geores::portable {

Summary::Pool Summary::pool_from(const std::string& name) {
  if (name == "sequence") return Pool::sequence;
  if (name == "causal") return Pool::causal;
  refuse_unless(name == "token", "pool", "must be sequence, causal or token, got {}", quote(name));
  return Pool::token;
}

Summary::Summary(Pool pool, int width) : pool_(pool), sum_(width), mean_(width) {}

void Summary::look(const double* states, int stride, int to) {
  if (pool_ != Pool::sequence) return;
  std::fill(mean_.begin(), mean_.end(), 0.0);
  for (int t = 0; t < to; ++t)
    for (std::size_t i = 0; i < mean_.size(); ++i)
      mean_[i] += states[static_cast<std::size_t>(t) * stride + i];
  for (double& value : mean_) value /= to;
}

const double* Summary::at(int position, const double* values) {
  if (pool_ == Pool::token) return values;
  if (pool_ == Pool::sequence) return mean_.data();
  if (position == 0) std::fill(sum_.begin(), sum_.end(), 0.0);
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    sum_[i] += values[i];
    mean_[i] = sum_[i] / (position + 1);
  }
  return mean_.data();
}

}  // namespace geores::portable
