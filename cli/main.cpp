#include "cli/program.h"

int main(int argc, char** argv) { return geores::cli::run_program(argc, argv); }
