#include "geores/puzzles/scoring/plain_scores.h"

#include <algorithm>
#include <functional>
#include <map>

#include "geores/puzzles/scoring/scores.h"
#include "geores/puzzles/sudoku/solver.h"

namespace geores::puzzles {
namespace {

// Fills `answer` with the tokens that a predictor has for a row of the test split.
using Predictor = std::function<void(const RowPosition& position, std::span<const int32_t> input,
                                     std::span<int32_t> answer)>;

nlohmann::json score(const Dataset& data, const Predictor& predict) {
  constexpr int64_t at_once = 256;
  const auto& split = data.test();
  const auto cells = static_cast<std::size_t>(split.cells());
  Evaluation evaluation(data);
  for (int64_t first = 0; first < split.rows(); first += at_once) {
    const auto batch = split.batch(evaluation_rows(split, first, at_once));
    auto answers = batch.inputs;
    for (std::size_t i = 0; i < batch.source.size(); ++i)
      if (batch.source[i] != kBlankRow)
        predict(split.position(batch.source[i]), std::span(batch.inputs).subspan(i * cells, cells),
                std::span(answers).subspan(i * cells, cells));
    evaluation.add(batch, answers, std::vector<double>(batch.source.size(), 0.0));
  }
  auto results = evaluation.results();
  results.erase("q_halt_accuracy");  // they do not say when they are right
  return results;
}

int32_t most_frequent_digit(const Split& train) {
  std::map<int32_t, int64_t> counts;
  std::vector<int32_t> inputs(static_cast<std::size_t>(train.cells())), labels(inputs.size());
  // Shuffled variants have every digit as often as any other: of each puzzle the one that is stored.
  for (const auto row : first_variants(train, 1)) {
    train.fill(row, inputs.data(), labels.data());
    for (const auto label : labels)
      if (label != kNotScored) ++counts[label];
  }
  return std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
}

Predictor frequent(const Dataset& data) {
  return [digit = most_frequent_digit(data.train())](const RowPosition&, auto, auto answer) {
    std::ranges::replace(answer, kSudokuBlank, digit);
  };
}

Predictor singles(const Dataset& data) {
  const auto shape = sudoku_shape(static_cast<int>(data.info().width));
  return [shape](const RowPosition&, auto input, auto answer) {
    Board board(input.size());
    std::ranges::transform(input, board.begin(), [](int32_t token) {
      return static_cast<uint8_t>(token - kSudokuBlank);
    });
    std::ranges::transform(fill_singles(shape, board), answer.begin(), sudoku_token);
  };
}

Predictor demonstrations(const Dataset& data) {
  const auto canvas = static_cast<int>(data.info().width);
  return [&tables = data.arc(), canvas](const RowPosition& position, auto input, auto answer) {
    const auto& group = tables.groups[static_cast<std::size_t>(tables.group(position.identifier))];
    if (group.train.empty()) return;
    const auto times = [&](const Pair& pair) {
      return std::ranges::count(group.train, pair.output, &Pair::output);
    };
    const auto& pair = *std::ranges::max_element(group.train, {}, times);
    std::vector<uint8_t> inputs(input.size()), labels(input.size());
    make_row(pair, tables.variant(position.identifier), canvas, {0, 0}, inputs, labels);
    std::ranges::copy(labels, answer.begin());
  };
}

}  // namespace

std::vector<PlainScore> plain_scores(const Dataset& data) {
  std::vector<PlainScore> all;
  const auto add = [&](const char* name, const char* label, const Predictor& predict) {
    all.push_back({name, label, score(data, predict)});
  };
  add("copy", "the input copied", [](const RowPosition&, auto, auto) {});
  if (data.info().kind == "sudoku") {
    add("frequent", "the most frequent digit", frequent(data));
    add("singles", "singles alone", singles(data));
  }
  if (data.info().is_arc())
    add("demonstrations", "the most frequent output of the demonstrations", demonstrations(data));
  return all;
}

}  // namespace geores::puzzles
