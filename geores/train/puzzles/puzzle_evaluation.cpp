#include "geores/train/puzzles/puzzle_evaluation.h"

#include <algorithm>
#include <optional>
#include <span>

#include "geores/base/error.h"
#include "geores/puzzles/scoring/scores.h"

namespace geores {
namespace {

// The rows to evaluate, in file order.
std::vector<int64_t> chosen_rows(const puzzles::Dataset& data,
                                 const PuzzleEvaluationOptions& options) {
  const auto& split = data.test();
  std::vector<int64_t> rows;
  if (options.votes > 0)
    rows = puzzles::first_variants(split, options.votes);
  else
    for (int64_t row = 0; row < split.rows(); ++row) rows.push_back(row);
  if (options.rows > 0 && options.rows < static_cast<int64_t>(rows.size()))
    rows.resize(static_cast<size_t>(options.rows));
  require(!rows.empty(), "evaluate", "the data set has no test puzzles");
  return rows;
}

// Counts over the rows that are not padding.
struct Sums {
  double lm_loss = 0, halting_steps = 0;
  std::vector<int64_t> halted;  // by pass
  int64_t rows = 0;

  void add(const puzzles::Batch& batch, const Tensor& q_halt, const Tensor& losses) {
    const auto passes = q_halt.size(0);
    halted.resize(static_cast<size_t>(passes));
    const auto q = q_halt.accessor<double, 2>();
    for (int64_t row = 0; row < batch.rows; ++row) {
      if (batch.source[static_cast<size_t>(row)] == puzzles::kBlankRow) continue;
      ++rows;
      lm_loss += losses[row].item<double>();
      int64_t pass = 0;
      while (pass + 1 < passes && !(q[pass][row] > 0)) ++pass;
      halting_steps += static_cast<double>(pass + 1);
      for (auto later = pass; later < passes; ++later)
        if (later > pass || q[pass][row] > 0) ++halted[static_cast<size_t>(later)];
    }
  }

  void write(nlohmann::json& to) const {
    const auto count = static_cast<double>(std::max<int64_t>(rows, 1));
    to["lm_loss"] = lm_loss / count;
    to["halting_steps"] = halting_steps / count;
    to["halted_after"] = nlohmann::json::array();
    for (const auto sum : halted) to["halted_after"].push_back(static_cast<double>(sum) / count);
  }
};

// The outputs that an evaluation reads of solved batches.
struct Answers {
  Tensor predictions;  // (batches, B, T) int32: after the last pass
  Tensor q_halt;       // (batches, steps, B) float64
  Tensor lm_loss;      // (batches, B) float64
};

// Solves `count` batches, one by each process; the index `first + rank` may exceed the last batch.
template <class Offer>
Answers solve_together(PuzzleSolver& solver, const Communicator& communicator, int64_t first,
                       int64_t count, Offer&& offer) {
  const auto rank = communicator.rank(), size = communicator.size();
  const auto own = std::min(
      first + rank, count - 1);  // a surplus process repeats the last batch; its result is ignored
  const auto solved = solver.solve(offer(own));
  const auto gathered = [&](const Tensor& mine) {
    auto shape = mine.sizes().vec();
    shape.insert(shape.begin(), size);
    auto all = torch::zeros(shape, mine.options());
    all[rank].copy_(mine);
    if (size == 1) return all;
    auto sent = all.to(communicator.device());
    gather_rows(communicator, sent);
    communicator.settle();
    return sent.to(torch::kCPU);
  };
  return {.predictions = gathered(solved.predictions[-1]),
          .q_halt = gathered(solved.q_halt),
          .lm_loss = gathered(solved.lm_loss)};
}

}  // namespace

const std::vector<std::string>& identifier_controls() {
  static const std::vector<std::string> all = {"kept", "blank", "shuffled"};
  return all;
}

nlohmann::json evaluate_puzzles(const puzzles::Dataset& data, PuzzleSolver& solver, int64_t batch,
                                const PuzzleEvaluationOptions& options,
                                const std::function<void(int64_t, int64_t)>& progress,
                                const Communicator& communicator) {
  const auto& known = identifier_controls();
  require(std::ranges::find(known, options.identifiers) != known.end(), "evaluate",
          "identifiers must be kept, blank or shuffled, got '{}'", options.identifiers);
  const auto rows = chosen_rows(data, options);
  std::optional<puzzles::ShuffledIdentifiers> shuffled;
  if (options.identifiers == "shuffled") shuffled.emplace(data.info().identifiers, options.seed);
  puzzles::Evaluation evaluation(data);
  Sums sums;
  const auto count = static_cast<int64_t>(rows.size()), batches = (count + batch - 1) / batch;
  const auto rows_at = [&](int64_t i) {
    std::vector<int64_t> some(static_cast<size_t>(batch), puzzles::kBlankRow);
    std::copy_n(rows.begin() + i * batch, std::min(batch, count - i * batch), some.begin());
    return data.test().batch(some);
  };
  const auto offered_at = [&](int64_t i) {
    auto offered = rows_at(i);
    if (options.identifiers == "blank") puzzles::blank_identifiers(offered);
    if (shuffled) shuffled->apply(offered);
    return offered;
  };
  const auto size = communicator.size();
  for (int64_t first = 0; first < batches; first += size) {
    const auto answers = solve_together(solver, communicator, first, batches, offered_at);
    for (auto i = first; i < std::min(first + size, batches); ++i) {
      const auto solved = rows_at(i);
      const auto last = answers.predictions[i - first].contiguous();
      const auto q_halt = answers.q_halt[i - first];
      const auto q = q_halt[-1].contiguous();
      evaluation.add(solved, std::span(last.data_ptr<int32_t>(), static_cast<size_t>(last.numel())),
                     std::span(q.data_ptr<double>(), static_cast<size_t>(q.numel())));
      sums.add(solved, q_halt, answers.lm_loss[i - first]);
    }
    if (progress) progress(std::min((first + size) * batch, count), count);
  }
  auto results = evaluation.results();
  sums.write(results);
  results["identifiers"] = options.identifiers;
  if (options.submission) results["submission"] = evaluation.arc().submission();
  return results;
}

}  // namespace geores
