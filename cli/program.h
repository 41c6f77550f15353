// The whole program, as a function: tests run it in a process of their own without loading LibTorch anew.
#pragma once

namespace geores::cli {

// The body of main; returns the exit code.
int run_program(int argc, char** argv);

}  // namespace geores::cli
