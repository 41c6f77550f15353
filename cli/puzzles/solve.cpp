#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/train/puzzles/puzzle_answers.h"

namespace geores::cli {
namespace {

struct SolveFlags {
  std::string run, puzzle, task, submission, page, device = "cpu";
  int64_t votes = 32;
  bool json = false;
};

void solve(const SolveFlags& flags) {
  const auto answers = solve_puzzle_file(
      flags.run,
      {.file = flags.puzzle, .task = flags.task, .votes = flags.votes, .device = flags.device});
  if (!flags.submission.empty()) {
    require(!answers.submission.is_null(), "solve", "only ARC tasks have a submission");
    write_file_atomically(flags.submission, answers.submission.dump() + "\n");
  }
  if (!flags.page.empty()) write_file_atomically(flags.page, answers.page());
  if (flags.json) {
    fmt::print("{}\n", answers.to_json().dump(2));
    return;
  }
  fmt::print("{}", answers.drawn(isatty(fileno(stdout)) != 0));
}

}  // namespace

void add_solve(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SolveFlags>();
  auto* command = app.add_subcommand(
      "solve",
      "Answer a puzzle with a trained recursive model.\n"
      "ARC: a task file (JSON), or a file of many with --task; the task must be one of the run's\n"
      "data set, because the model depends on the task's identifier. Its variants vote.\n"
      "Sudoku: a text of digits, '.' or 0 for a blank. Maze: a text of '#', ' ', 'S' and 'G'.\n"
      "Examples:\n"
      "  geores solve --run runs/arc --puzzle 007bbfb7.json --submission submission.json\n"
      "  geores solve --run runs/sudoku --puzzle hard.txt --page hard.html");
  command->add_option("--run", flags->run, "folder of the run")->required();
  command->add_option("--puzzle", flags->puzzle, "file with the puzzle")->required();
  command->add_option("--task", flags->task, "name of the task in a file of many");
  command->add_option("--votes", flags->votes, "variants of an ARC task that vote")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--submission", flags->submission, "ARC: write two attempts a test here");
  command->add_option("--page", flags->page, "HTML page: how the answer forms, pass by pass");
  command->add_option("--device", flags->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_flag("--json", flags->json, "machine-readable result");
  command->callback([flags, &exit_code] {
    solve(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
