// SIGINT, SIGTERM and SIGHUP while it lives: the first one asks for an orderly end, a second one ends
// the process at once. Signals that were ignored when the program started stay ignored (nohup).
#pragma once

namespace geores::cli {

class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  static bool requested();
  // Of a program that such a signal has ended: 128 + its number; SIGTERM's if it was another process
  // of the run that got it.
  static int exit_code();
};

}  // namespace geores::cli
