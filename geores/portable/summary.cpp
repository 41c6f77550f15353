#include "geores/portable/summary.h"

#include <algorithm>
#include <cstddef>

namespace geores::portable {

Summary::Pool Summary::pool_from(std::string_view name) {
  if (name == "sequence") return Pool::sequence;
  if (name == "causal") return Pool::causal;
  refuse_unless(name == "token", "pool", "must be sequence, causal or token, got {}",
                {quoted(name)});
  return Pool::token;
}

Summary::Summary(Pool pool, int width, Arena& arena)
    : pool_(pool), width_(width), sum_(arena.doubles(width)), mean_(arena.doubles(width)) {}

void Summary::look(const double* states, int stride, int to) {
  if (pool_ != Pool::sequence) return;
  std::fill_n(mean_, width_, 0.0);
  for (int t = 0; t < to; ++t)
    for (int i = 0; i < width_; ++i) mean_[i] += states[static_cast<std::size_t>(t) * stride + i];
  for (int i = 0; i < width_; ++i) mean_[i] /= to;
}

const double* Summary::at(int position, const double* values) {
  if (pool_ == Pool::token) return values;
  if (pool_ == Pool::sequence) return mean_;
  if (position == 0) std::fill_n(sum_, width_, 0.0);
  for (int i = 0; i < width_; ++i) {
    sum_[i] += values[i];
    mean_[i] = sum_[i] / (position + 1);
  }
  return mean_;
}

}  // namespace geores::portable
