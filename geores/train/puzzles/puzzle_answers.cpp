#include "geores/train/puzzles/puzzle_answers.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <sstream>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/puzzles/maze/maze.h"
#include "geores/puzzles/sudoku/board.h"
#include "geores/puzzles/tokens.h"
#include "geores/puzzles/view/terminal.h"
#include "geores/train/puzzles/puzzle_solver.h"
#include "geores/train/run/run_folder.h"

namespace geores {
namespace {

std::vector<int32_t> sudoku_tokens(const puzzles::DatasetInfo& info, const std::string& text,
                                   const std::string& where) {
  std::vector<int32_t> tokens;
  for (const auto letter : text) {
    if (std::isspace(static_cast<unsigned char>(letter)) || letter == '|' || letter == '-' ||
        letter == '+')
      continue;
    const bool blank = letter == '.' || letter == '_' || letter == '0';
    const auto digit = letter - '0';
    require(blank || (digit >= 1 && digit <= info.width), where,
            "'{}' is no digit from 1 to {} and no blank", letter, info.width);
    tokens.push_back(blank ? puzzles::kSudokuBlank
                           : puzzles::sudoku_token(static_cast<uint8_t>(digit)));
  }
  require(static_cast<int64_t>(tokens.size()) == info.cells(), where,
          "a sudoku of this run has {} cells, the file has {}", info.cells(), tokens.size());
  return tokens;
}

std::vector<int32_t> maze_tokens(const puzzles::DatasetInfo& info, const std::string& text,
                                 const std::string& where) {
  std::istringstream lines(text);
  std::vector<int32_t> tokens;
  int64_t rows = 0, starts = 0, goals = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    require(rows < info.height && static_cast<int64_t>(line.size()) <= info.width, where,
            "a maze of this run has {} rows of {} cells; row {} has {}", info.height, info.width,
            rows + 1, line.size());
    line.resize(static_cast<size_t>(info.width), ' ');  // editors strip trailing blanks
    for (const auto letter : line) {
      const auto at = std::string("# .SG").find(letter);
      require(at != std::string::npos, where, "'{}' in row {} is no part of a maze", letter,
              rows + 1);
      constexpr int32_t tokens_of[] = {puzzles::kWall, puzzles::kFree, puzzles::kFree,
                                       puzzles::kStart, puzzles::kGoal};
      tokens.push_back(tokens_of[at]);
      starts += letter == 'S';
      goals += letter == 'G';
    }
  }
  require(rows == info.height, where, "a maze of this run has {} rows, the file has {}",
          info.height, rows);
  require(starts == 1 && goals == 1, where, "a maze has one S and one G; this one has {} and {}",
          starts, goals);
  return tokens;
}

struct Question {
  int32_t identifier;
  std::vector<int32_t> input, label;
};

struct Reply {
  std::vector<std::vector<int32_t>> steps;
  std::vector<double> q_halt;
};

std::vector<Reply> replies_to(const LoadedRun& run, const std::vector<Question>& questions) {
  constexpr int64_t most = 64;  // at a time
  const auto count = static_cast<int64_t>(questions.size());
  const auto rows = std::min(most, count);
  PuzzleSolver solver(recursive_model(run), rows, run.config.precision);
  std::vector<Reply> replies;
  for (int64_t first = 0; first < count; first += rows) {
    puzzles::Batch batch{.rows = rows, .cells = run.model->input().length};
    for (int64_t i = 0; i < rows; ++i) {
      // The last batch is padded with its last question.
      const auto& one = questions[static_cast<size_t>(std::min(first + i, count - 1))];
      batch.inputs.insert(batch.inputs.end(), one.input.begin(), one.input.end());
      batch.labels.insert(batch.labels.end(), one.label.begin(), one.label.end());
      batch.identifiers.push_back(one.identifier);
      batch.source.push_back(puzzles::kBlankRow);
    }
    const auto solved = solver.solve(batch);
    const auto tokens = solved.predictions.accessor<int32_t, 3>();
    const auto q = solved.q_halt.accessor<double, 2>();
    for (int64_t i = 0; i < std::min(rows, count - first); ++i) {
      Reply reply;
      for (int64_t step = 0; step < tokens.size(0); ++step) {
        const auto* begin = tokens[step][i].data();
        reply.steps.emplace_back(begin, begin + batch.cells);
        reply.q_halt.push_back(q[step][i]);
      }
      replies.push_back(std::move(reply));
    }
  }
  return replies;
}

const puzzles::Task& only_task(const std::vector<puzzles::Task>& tasks,
                               const PuzzleQuestion& question) {
  if (!question.task.empty()) return puzzles::find_task(tasks, question.task, question.file);
  require(tasks.size() == 1, question.file, "holds {} tasks: choose one with --task", tasks.size());
  return tasks.front();
}

// The first variants of a task, starting with the untransformed one.
std::vector<int32_t> identifiers_of(const puzzles::ArcTables& tables, const std::string& task,
                                    int64_t votes, const std::string& where) {
  std::vector<int32_t> all;
  for (size_t i = 0; i < tables.group_of.size(); ++i)
    if (tables.groups[static_cast<size_t>(tables.group_of[i])].task == task &&
        static_cast<int64_t>(all.size()) < votes)
      all.push_back(static_cast<int32_t>(i + 1));
  require(!all.empty(), where,
          "task '{}' is not in the run's data set: the model depends on the task's identifier",
          task);
  return all;
}

PuzzleAnswers solve_arc(const LoadedRun& run, const puzzles::Dataset& data,
                        const PuzzleQuestion& question) {
  const auto tasks = puzzles::read_tasks(question.file);
  const auto& task = only_task(tasks, question);
  const auto where = std::filesystem::path(question.file).filename().string();
  const auto identifiers = identifiers_of(data.arc(), task.name, question.votes, where);
  const auto canvas = static_cast<int>(data.info().width);
  const auto cells = static_cast<size_t>(data.info().cells());
  require(!task.tests.empty(), where, "task '{}' has no test", task.name);

  std::vector<Question> questions;
  for (const auto& test : task.tests)
    for (const auto identifier : identifiers) {
      require(
          std::max({test.input.height, test.input.width, test.output.height, test.output.width}) <=
              canvas,
          where, "a grid of task '{}' is larger than the run's canvas of {}", task.name, canvas);
      std::vector<uint8_t> input(cells), label(cells);
      puzzles::make_row(test, data.arc().variant(identifier), canvas, {0, 0}, input, label);
      Question one{.identifier = identifier,
                   .input = {input.begin(), input.end()},
                   .label = {label.begin(), label.end()}};
      std::ranges::replace(one.label, puzzles::kPad, puzzles::kNotScored);
      if (test.output.empty()) std::ranges::fill(one.label, puzzles::kNotScored);
      questions.push_back(std::move(one));
    }
  const auto replies = replies_to(run, questions);

  PuzzleAnswers answers{.info = data.info(), .title = task.name, .solvings = {}};
  auto attempts = nlohmann::json::array();
  for (size_t t = 0; t < task.tests.size(); ++t) {
    const auto first = t * identifiers.size();
    std::vector<puzzles::Prediction> predictions;
    for (size_t v = 0; v < identifiers.size(); ++v) {
      const auto& reply = replies[first + v];
      predictions.push_back({.grid = puzzles::undo(data.arc().variant(identifiers[v]),
                                                   puzzles::crop(reply.steps.back(), canvas)),
                             .confidence = 1 / (1 + std::exp(-reply.q_halt.back()))});
    }
    answers.rankings.push_back(puzzles::rank(predictions));
    answers.solvings.push_back({.title = fmt::format("{}, test {}", task.name, t + 1),
                                .input = questions[first].input,
                                .label = questions[first].label,
                                .steps = replies[first].steps,
                                .q_halt = replies[first].q_halt,
                                .demonstrations = task.demonstrations});
    const auto& ranking = answers.rankings.back();
    const auto attempt = [&](size_t number) {
      const auto& grid = ranking[std::min(number, ranking.size() - 1)].grid;
      return grid.empty() ? nlohmann::json::parse("[[0]]") : puzzles::to_json(grid);
    };
    attempts.push_back({{"attempt_1", attempt(0)}, {"attempt_2", attempt(1)}});
  }
  answers.submission = {{task.name, attempts}};
  return answers;
}

}  // namespace

std::vector<int32_t> puzzle_from_text(const puzzles::DatasetInfo& info, const std::string& text,
                                      const std::string& where) {
  return info.kind == "sudoku" ? sudoku_tokens(info, text, where) : maze_tokens(info, text, where);
}

PuzzleAnswers solve_puzzle_file(const std::string& path, const PuzzleQuestion& question) {
  const auto run = load_puzzle_run(path, question.device);
  const auto dataset = load_dataset(run.config.task);
  const auto& data = *dataset.puzzle_set;
  const auto identifiers = recursive_model(run).options().identifiers;
  require(identifiers == data.info().identifiers, "solve",
          "{} has {} identifiers, the run {}: another data set",
          run.config.task.options["data"].get<std::string>(), data.info().identifiers, identifiers);
  if (data.info().is_arc()) return solve_arc(run, data, question);
  const auto where = std::filesystem::path(question.file).filename().string();
  Question one{
      .identifier = 0,
      .input = puzzle_from_text(data.info(), read_text_file(question.file), where),
      .label = std::vector<int32_t>(static_cast<size_t>(data.info().cells()), puzzles::kNotScored)};
  const auto reply = replies_to(run, {one}).front();
  return {.info = data.info(),
          .title = where,
          .solvings = {{.title = where,
                        .input = one.input,
                        .label = one.label,
                        .steps = reply.steps,
                        .q_halt = reply.q_halt}}};
}

std::string PuzzleAnswers::drawn(bool color) const {
  std::string text;
  for (size_t i = 0; i < solvings.size(); ++i) {
    const auto& one = solvings[i];
    text += one.title + "\n";
    if (rankings.empty()) {
      text += puzzles::side_by_side({{"puzzle", puzzles::draw(info, one.input, color)},
                                     {"answer", puzzles::draw(info, one.steps.back(), color)}});
      text += fmt::format("q_halt {:.2f} after {} passes\n", one.q_halt.back(), one.steps.size());
      continue;
    }
    for (size_t number = 0; number < std::min<size_t>(2, rankings[i].size()); ++number) {
      const auto& candidate = rankings[i][number];
      text += fmt::format("attempt {}: {} votes, confidence {:.3f}\n", number + 1, candidate.votes,
                          candidate.mean_confidence);
      text += candidate.grid.empty() ? "(no grid)\n" : puzzles::draw(candidate.grid, color);
    }
  }
  return text;
}

std::string PuzzleAnswers::page() const { return puzzles::page_of(info, title, solvings); }

nlohmann::json PuzzleAnswers::to_json() const {
  auto list = nlohmann::json::array();
  for (size_t i = 0; i < solvings.size(); ++i) {
    nlohmann::json one = {{"title", solvings[i].title},
                          {"answer", solvings[i].steps.back()},
                          {"q_halt", solvings[i].q_halt}};
    if (!rankings.empty()) {
      one["candidates"] = nlohmann::json::array();
      for (const auto& candidate : rankings[i])
        one["candidates"].push_back({{"grid", puzzles::to_json(candidate.grid)},
                                     {"votes", candidate.votes},
                                     {"confidence", candidate.mean_confidence}});
    }
    list.push_back(one);
  }
  return {{"puzzle", title}, {"answers", list}};
}

}  // namespace geores
