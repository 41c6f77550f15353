#include "geores/puzzles/training_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "geores/base/error.h"
#include "geores/puzzles/random.h"

namespace geores::puzzles {
namespace {

// Different uses of the same seed.
constexpr uint64_t group_order = 1, variant_choice = 2, row_order = 3;

// Rows that an epoch has at least, whichever variants it takes.
int64_t fewest_rows(const Split& split) {
  const auto& [identifiers, first_row, first_variant] = split.index();
  int64_t sum = 0;
  for (std::size_t g = 0; g + 1 < first_variant.size(); ++g) {
    auto fewest = INT32_MAX;
    for (auto v = static_cast<std::size_t>(first_variant[g]);
         std::cmp_less(v, first_variant[g + 1]); ++v)
      fewest = std::min(fewest, first_row[v + 1] - first_row[v]);
    sum += fewest;
  }
  return sum;
}

}  // namespace

TrainingOrder::TrainingOrder(const Split& split, uint64_t seed, int64_t batch_rows,
                             int64_t epochs_per_round)
    : split_(split), seed_(seed), batch_rows_(batch_rows), epochs_per_round_(epochs_per_round) {
  require(batch_rows >= 1, "puzzles", "batch must be >= 1, got {}", batch_rows);
  require(epochs_per_round >= 0, "puzzles", "epochs per round must be >= 0, got {}",
          epochs_per_round);
  require(epochs_per_round == 0 || fewest_rows(split) * epochs_per_round >= batch_rows, "puzzles",
          "a round of {} epochs over {} groups may not fill a batch of {} rows", epochs_per_round,
          split.groups(), batch_rows);
  restart();
}

void TrainingOrder::restart() {
  step_ = 0;
  enter_epoch(0);
}

void TrainingOrder::enter_epoch(int64_t epoch) {
  position_ = {epoch, 0};
  order_.resize(static_cast<std::size_t>(split_.groups()));
  std::iota(order_.begin(), order_.end(), 0);
  Random({seed_, group_order, static_cast<uint64_t>(epoch)}).shuffle(std::span(order_));
}

int64_t TrainingOrder::chosen_variant(int64_t group) const {
  const auto& first = split_.index().first_variant;
  const auto begin = first[static_cast<std::size_t>(group)];
  const auto count = first[static_cast<std::size_t>(group) + 1] - begin;
  Random random({seed_, variant_choice, static_cast<uint64_t>(position_.epoch),
                 static_cast<uint64_t>(group)});
  return begin + random.below(count);
}

void TrainingOrder::pass_batch(std::vector<int64_t>* rows) {
  last_ = position_;
  int64_t filled = 0;
  while (filled < batch_rows_) {
    if (position_.group == order_.size()) {
      enter_epoch(position_.epoch + 1);
      if (epochs_per_round_ > 0 && position_.epoch % epochs_per_round_ == 0) {
        filled = 0;
        if (rows) rows->clear();
      }
    }
    const auto group = order_[position_.group];
    const auto variant = static_cast<std::size_t>(chosen_variant(group));
    const auto begin = split_.index().first_row[variant];
    const auto count = split_.index().first_row[variant + 1] - begin;
    const auto taken = std::min<int64_t>(count, batch_rows_ - filled);
    if (rows) {
      std::vector<int64_t> shuffled(static_cast<std::size_t>(count));
      std::iota(shuffled.begin(), shuffled.end(), begin);
      Random(
          {seed_, row_order, static_cast<uint64_t>(position_.epoch), static_cast<uint64_t>(group)})
          .shuffle(std::span(shuffled));
      rows->insert(rows->end(), shuffled.begin(), shuffled.begin() + taken);
    }
    filled += taken;
    ++position_.group;
  }
  ++step_;
}

void TrainingOrder::go_to(int64_t step) {
  require(step >= 0, "puzzles", "step must be >= 0, got {}", step);
  if (step + 1 == step_) {  // the batch that was passed last
    const auto begin = last_;
    if (begin.epoch != position_.epoch) enter_epoch(begin.epoch);
    position_ = begin;
    step_ = step;
  }
  if (step < step_) restart();
  while (step_ < step) pass_batch(nullptr);
}

std::vector<int64_t> TrainingOrder::rows(int64_t step) {
  go_to(step);
  std::vector<int64_t> rows;
  rows.reserve(static_cast<std::size_t>(batch_rows_));
  pass_batch(&rows);
  return rows;
}

int64_t TrainingOrder::epoch(int64_t step) {
  go_to(step);
  pass_batch(nullptr);
  return position_.epoch;
}

int64_t TrainingOrder::planned_steps(int64_t epochs) const {
  const auto rows = static_cast<double>(epochs) * static_cast<double>(split_.groups()) *
                    split_.mean_rows_per_variant();
  return static_cast<int64_t>(std::floor(rows / static_cast<double>(batch_rows_)));
}

}  // namespace geores::puzzles
