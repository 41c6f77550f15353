#include "cli/commands.h"
#include "cli/lab/lab.h"

namespace geores::cli {

void add_lab_commands(CLI::App& app, int& exit_code, char**) {
  add_reproduce(app, exit_code);
  add_study(app, exit_code);
  add_spectrum(app, exit_code);
  add_spectral_gap(app, exit_code);
  add_bench(app, exit_code);
  add_completion(app, exit_code);  // here, because this program knows the options of all commands
}

}  // namespace geores::cli
