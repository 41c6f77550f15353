// The program in a process of its own, with its output.
//   EXPECT_EQ(run_program("list --json").exit_code, 0);
// The process is a copy of the test program, which has done nothing yet with LibTorch: loading that and
// its 280 libraries anew would take longer than most commands. reliability_test.cpp starts the program
// from its file.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>

#include "cli/program.h"

namespace geores {

struct Surroundings {
  std::filesystem::path folder = ".";
  int output = STDOUT_FILENO;  // where stdout goes, and stderr unless:
  bool errors = true;
  std::function<void()> before = [] {};  // called in the new process
};

// The process that runs the program. `arguments` as in a shell, without pipes and redirections.
inline pid_t start_program(const std::string& arguments, const Surroundings& surroundings) {
  std::fflush(nullptr);  // or both processes write the contents of the buffer
  const auto child = fork();
  if (child != 0) return child;
  const auto output = surroundings.output;
  const auto errors = surroundings.errors ? output : open("/dev/null", O_WRONLY);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  std::filesystem::current_path(surroundings.folder);
  wordexp_t words;
  if (wordexp(("geores " + arguments).c_str(), &words, WRDE_NOCMD) != 0) _exit(127);
  surroundings.before();
  const auto code = cli::run_program(static_cast<int>(words.we_wordc), words.we_wordv);
  std::fflush(nullptr);
  _exit(code);
}

// Its exit code, or the negative of the signal that ended it.
inline int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

struct Outcome {
  int exit_code;
  std::string output;  // stdout and stderr
};

inline Outcome run_program(const std::string& arguments, Surroundings surroundings = {}) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {127, "no pipe"};
  surroundings.output = ends[1];
  const auto child = start_program(arguments, surroundings);
  close(ends[1]);
  std::string output;
  char buffer[4096];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
    output.append(buffer, static_cast<size_t>(count));
  close(ends[0]);
  return {wait_for(child), output};
}

}  // namespace geores
