// A bar with rate and time left on a terminal, plain lines now and then in a log. Written to
// stderr, so that results on stdout stay clean.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "cli/terminal/output.h"

namespace geores::cli {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label)
      : label_(std::move(label)), terminal_(isatty(fileno(stderr)) != 0) {}
  ~ProgressBar() {
    if (terminal_ && shown_) say("\n");
  }

  // Fewer done than before, or another total: other work has begun.
  void show(int64_t done, int64_t total, double seconds, const std::string& numbers) {
    if (done < done_ || total != total_) {
      next_line_ = 0;
      first_ = -1;
    }
    done_ = done;
    total_ = total;
    const auto share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1));
    if (!terminal_) {
      if (share < next_line_ && done < total) return;
      next_line_ = share + 0.1;
      say("{} {}/{} {} {:.0f} s\n", label_, done, total, numbers, seconds);
      return;
    }
    if (first_ < 0) {
      first_ = done;
      first_seconds_ = seconds;
    }
    const auto elapsed = seconds - first_seconds_;
    const auto rate = elapsed > 0 ? static_cast<double>(done - first_) / elapsed : 0.0;
    const auto left = rate > 0 ? static_cast<double>(total - done) / rate : 0.0;
    std::string bar(24, '.');
    std::fill_n(bar.begin(), static_cast<int>(share * 24), '#');
    say("\r{} [{}] {}/{} {} {:.1f}/s, {:.0f} s left   ", label_, bar, done, total, numbers, rate,
        left);
    shown_ = true;
  }

 private:
  std::string label_;
  bool terminal_, shown_ = false;
  double next_line_ = 0;
  int64_t done_ = 0, total_ = -1, first_ = -1;
  double first_seconds_ = 0;
};

}  // namespace geores::cli
