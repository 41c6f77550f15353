// The subcommands of geores-lab, as in cli/commands.h.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/lab_commands.h"

namespace geores::cli {

void add_reproduce(CLI::App& app, int& exit_code);
void add_study(CLI::App& app, int& exit_code);
void add_spectrum(CLI::App& app, int& exit_code);
void add_spectral_gap(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);

}  // namespace geores::cli
