// One evaluation of a model on the test split of a data set, whatever its kind.
//   Evaluation evaluation(data);
//   evaluation.add(batch, predictions, q_halt);     for every batch
//   evaluation.results()
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "geores/puzzles/dataset.h"
#include "geores/puzzles/scoring/arc_scores.h"

namespace geores::puzzles {

class Evaluation {
 public:
  // `data` must outlive it.
  explicit Evaluation(const Dataset& data);

  // predictions: tokens (rows, cells) after the last ACT step; q_halt: logits (rows). Rows without
  // a scored cell, blank ones among them, are skipped. A variant is undone by batch.source, so
  // batches with blanked or shuffled identifiers can be scored.
  void add(const Batch& batch, std::span<const int32_t> predictions,
           std::span<const double> q_halt);

  // rows; exact: share of rows with all scored cells right; cells: share of right cells, mean over
  // rows; q_halt_accuracy: share of rows where q_halt ≥ 0 predicts whether the row is correct;
  // sudoku: by_rating {"0", "1-10", "11-30", ">30"}, each {rows, exact}
  // maze: shortest_path: share of rows whose answer is some shortest path
  // arc, reflect: what ArcScores::results() has
  nlohmann::json results() const;

  const ArcScores& arc() const;  // ARC only

 private:
  struct Count {
    int64_t rows = 0, exact = 0;
  };
  const Dataset& data_;
  std::optional<ArcScores> arc_;
  Count all_;
  double cells_ = 0;  // sum of the shares of right cells
  int64_t q_halt_right_ = 0, shortest_ = 0;
  std::map<std::string, Count> by_rating_;
};

// "0", "1-10", "11-30" or ">30"
std::string rating_bin(int64_t rating);

}  // namespace geores::puzzles
