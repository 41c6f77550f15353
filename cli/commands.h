// One function per subcommand, each in the file of its name: it adds the subcommand with its flags
// and help to the app. A command fails by throwing Error; what it returns otherwise is its exit
// code, left in `exit_code`. The first line of a subcommand's help says what it is for.
#pragma once

#include <CLI/CLI.hpp>

namespace geores::cli {

void add_list(CLI::App& app, int& exit_code);
void add_data(CLI::App& app, int& exit_code);
void add_params(CLI::App& app, int& exit_code);
void add_train(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_predict(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_explore(CLI::App& app, int& exit_code);
void add_solve(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_import(CLI::App& app, int& exit_code);
void add_puzzle_data(CLI::App& app, int& exit_code);
void add_show_puzzles(CLI::App& data, int& exit_code);  // a command of `geores data`

// All of lab_commands.h. geores-lab has them (lab_commands.cpp); in geores each starts geores-lab with the
// same arguments (forward_to_lab.cpp).
void add_lab_commands(CLI::App& app, int& exit_code, char** argv);

}  // namespace geores::cli
