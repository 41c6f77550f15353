#include "cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/terminal/output.h"
#include "cli/terminal/process.h"
#include "geores/base/error.h"
#include "geores/base/nearest.h"

namespace {

constexpr const char* kDescription =
    R"(geores: transformers whose residual connections are geometric operators.

  geores list                        every residual connection; geores list NAME: one and its options
  geores train --task gyroscope --model edelta --out runs/first
  geores inspect --run runs/first    gates, orthogonality, ranks and Jacobian of a trained model
  geores data text --input a.txt --tokenizer chars --out data/a
  geores train --task text --data data/a --model mhc --out runs/text
  geores generate --run runs/text    text from a run on text

`geores COMMAND --help` explains each command, with examples.)";

// The first sentence of a command's help.
std::string summary(const CLI::App& command) {
  auto help = command.get_description();
  std::replace(help.begin(), help.end(), '\n', ' ');
  const auto end = std::min(help.find(". "), help.find("? "));
  return end == help.npos ? help : help.substr(0, end + 1);
}

// Lists subcommands with a line each.
struct OneLineEach : CLI::Formatter {
  std::string make_subcommand(const CLI::App* command) const override {
    return fmt::format("  {:<{}}{}\n", command->get_name(), column_width_ - 2, summary(*command));
  }
};

// CLI11 would say only that a subcommand is required.
void require_known_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands({})) known.push_back(command->get_name());
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  const auto near = geores::nearest(word, known);
  throw geores::Error(fmt::format("unknown command '{}'{} (see geores --help)", word,
                                  near.empty() ? "" : ", did you mean '" + near + "'?"));
}

int run_command(int argc, char** argv) {
  CLI::App app(kDescription, "geores");
  app.formatter(std::make_shared<OneLineEach>());
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all commands");
  app.set_version_flag("--version", "geores " GEORES_VERSION);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("geores: {} (see geores --help)\n", error.what());
  });
  int exit_code = 0;
  geores::cli::add_list(app, exit_code);
  geores::cli::add_params(app, exit_code);
  geores::cli::add_data(app, exit_code);
  geores::cli::add_train(app, exit_code);
  geores::cli::add_eval(app, exit_code);
  geores::cli::add_generate(app, exit_code);
  geores::cli::add_compare(app, exit_code);
  geores::cli::add_predict(app, exit_code);
  geores::cli::add_inspect(app, exit_code);
  geores::cli::add_explore(app, exit_code);
  geores::cli::add_solve(app, exit_code);
  geores::cli::add_verify(app, exit_code);
  geores::cli::add_import(app, exit_code);
  geores::cli::add_puzzle_data(app, exit_code);
  geores::cli::add_lab_commands(app, exit_code, argv);
  try {
    if (argc > 1 && argv[1][0] != '-') require_known_command(app, argv[1]);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}

}  // namespace

int geores::cli::run_program(int argc, char** argv) {
  geores::cli::occupy_standard_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error to report, not a crash
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe does not end a run
  try {
    return geores::cli::after_output(run_command(argc, argv));
  } catch (const std::exception& error) {
    if (!geores::cli::reader_is_gone(error))
      geores::cli::say("geores: {}\n", geores::cli::last_words(error));
  }
  return 1;
}
