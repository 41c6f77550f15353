#include "geores/puzzles/scoring/scores.h"

#include "geores/base/error.h"
#include "geores/puzzles/maze/maze.h"

namespace geores::puzzles {
namespace {

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::string rating_bin(int64_t rating) {
  return rating == 0 ? "0" : rating <= 10 ? "1-10" : rating <= 30 ? "11-30" : ">30";
}

Evaluation::Evaluation(const Dataset& data) : data_(data) {
  if (data.info().is_arc()) arc_.emplace(data.arc(), static_cast<int>(data.info().width));
}

void Evaluation::add(const Batch& batch, std::span<const int32_t> predictions,
                     std::span<const double> q_halt) {
  const auto cells = static_cast<std::size_t>(batch.cells);
  const auto rows = static_cast<std::size_t>(batch.rows);
  require(batch.cells == data_.info().cells() && predictions.size() == rows * cells &&
              q_halt.size() == rows,
          "puzzles", "{} rows of {} cells need as many predictions, got {}, and logits, got {}",
          rows, cells, predictions.size(), q_halt.size());
  for (std::size_t i = 0; i < rows; ++i) {
    if (batch.source[i] == kBlankRow) continue;
    const auto prediction = predictions.subspan(i * cells, cells);
    const auto input = std::span(batch.inputs).subspan(i * cells, cells);
    int64_t scored = 0, right = 0;
    for (std::size_t c = 0; c < cells; ++c) {
      const auto label = batch.labels[i * cells + c];
      if (label == kNotScored) continue;
      ++scored;
      right += prediction[c] == label;
    }
    if (scored == 0) continue;
    const bool exact = right == scored;
    ++all_.rows;
    all_.exact += exact;
    cells_ += share(right, scored);
    q_halt_right_ += (q_halt[i] >= 0) == exact;
    const auto position = data_.test().position(batch.source[i]);
    if (arc_) arc_->add(position.identifier, input, prediction, q_halt[i]);
    if (data_.info().kind == "maze")
      shortest_ += is_shortest_path(input, prediction, static_cast<int>(data_.info().width));
    if (const auto rating = data_.test().rating(batch.source[i]); rating >= 0) {
      auto& bin = by_rating_[rating_bin(rating)];
      ++bin.rows;
      bin.exact += exact;
    }
  }
}

nlohmann::json Evaluation::results() const {
  auto result = arc_ ? arc_->results() : nlohmann::json::object();
  result["rows"] = all_.rows;
  result["exact"] = share(all_.exact, all_.rows);
  result["cells"] = all_.rows == 0 ? 0 : cells_ / static_cast<double>(all_.rows);
  result["q_halt_accuracy"] = share(q_halt_right_, all_.rows);
  if (data_.info().kind == "maze") result["shortest_path"] = share(shortest_, all_.rows);
  for (const auto& [name, count] : by_rating_)
    result["by_rating"][name] = {{"rows", count.rows}, {"exact", share(count.exact, count.rows)}};
  return result;
}

const ArcScores& Evaluation::arc() const {
  require(arc_.has_value(), "puzzles", "a {} data set has no votes", data_.info().kind);
  return *arc_;
}

}  // namespace geores::puzzles
