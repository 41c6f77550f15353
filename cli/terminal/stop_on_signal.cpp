#include "cli/terminal/stop_on_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace geores::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> received = 0;  // lock-free: signal handlers may use it

void forget_signals() {
  for (const auto number : kSignals) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      ::signal(number, SIG_DFL);
  }
}

extern "C" void remember_signal(int number) {
  received = number;
  forget_signals();  // the next one has its usual effect
  constexpr char text[] =
      "\ngeores: finishing the step and writing a checkpoint; once more to stop at once\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, sizeof text - 1);
}

}  // namespace

StopOnSignal::StopOnSignal() {
  for (const auto number : kSignals) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    now.sa_handler = remember_signal;
    sigemptyset(&now.sa_mask);
    now.sa_flags = SA_RESTART;
    sigaction(number, &now, nullptr);
  }
}

StopOnSignal::~StopOnSignal() { forget_signals(); }

bool StopOnSignal::requested() { return received != 0; }

int StopOnSignal::exit_code() { return 128 + (received != 0 ? received.load() : SIGTERM); }

}  // namespace geores::cli
