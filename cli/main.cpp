#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "cli/commands.h"
#include "geores/base/error.h"

namespace {

constexpr const char* kDescription =
    R"(geores: transformers whose residual connections are geometric operators.

  geores list                        every residual connection, its traits and parameter counts
  geores list edelta                 one connection and all its options
  geores verify dump.safetensors     our model against another implementation's dump: forward,
                                     gradients and training steps in float64

`geores COMMAND --help` explains each command.)";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(kDescription, "geores");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all commands");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("geores: {} (see geores --help)\n", error.what());
  });
  int exit_code = 0;
  geores::cli::add_list(app, exit_code);
  geores::cli::add_verify(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const geores::Error& error) {
    fmt::print(stderr, "geores: {}\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    // LibTorch explains itself over many lines; the first one says what happened.
    const std::string text = error.what();
    fmt::print(stderr, "geores: {}\n", text.substr(0, text.find('\n')));
    return 1;
  }
  return exit_code;
}
