#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "cli/lab_commands.h"
#include "geores/base/error.h"

namespace geores::cli {
namespace {

[[noreturn]] void run_lab(const char* command, char** argv) {
  std::error_code ignored;
  const auto lab =
      std::filesystem::read_symlink("/proc/self/exe", ignored).replace_filename("geores-lab");
  std::fflush(nullptr);
  execv(lab.c_str(), argv);
  fail(command, "needs {}, which is not built: run scripts/build release", lab.string());
}

}  // namespace

void add_lab_commands(CLI::App& app, int&, char** argv) {
  for (const auto& [name, about] : kLabCommands) {
    auto* command = app.add_subcommand(name, about)->prefix_command();
    command->set_help_flag();  // geores-lab has the help
    command->set_help_all_flag();
    command->callback([name = name, argv] { run_lab(name, argv); });
  }
}

}  // namespace geores::cli
