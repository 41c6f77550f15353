#include "cli/terminal/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "cli/terminal/output.h"
#include "geores/base/error.h"

namespace geores::cli {
namespace {

// The text between two words; "" without them.
std::string between(const std::string& text, std::string_view before, std::string_view after) {
  const auto begin = text.find(before);
  if (begin == text.npos) return "";
  const auto wanted = begin + before.size();
  const auto end = text.find(after, wanted);
  return end == text.npos ? "" : text.substr(wanted, end - wanted);
}

// LibTorch's message names every process of the GPU, and has a thousand characters.
std::string words_on_gpu_memory(const std::string& text) {
  const auto asked = between(text, "Tried to allocate ", ". "),
             free = between(text, "of which ", " is free");
  return fmt::format(
      "the GPU has not enough memory{}; fewer runs at a time (--jobs), a smaller --batch or "
      "--checkpoint blocks need less",
      asked.empty() || free.empty()
          ? ""
          : fmt::format(": {} were asked for and {} are free", asked, free));
}

}  // namespace

void occupy_standard_descriptors() {
  // open() takes the lowest free descriptor, so those below are open when one is looked at.
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) ::open("/dev/null", O_RDWR);
}

int after_output(int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const auto reason = errno;
  if ((flushed && std::cout.flush().good()) || code != 0) return code;
  if (reason != EPIPE)
    say("geores: the output cannot be written{}\n",
        reason == 0 ? "" : ": " + std::generic_category().message(reason));
  return 1;
}

std::string last_words(const std::exception& error) {
  const std::string text = error.what();
  if (dynamic_cast<const Error*>(&error)) return text;
  if (text.starts_with("CUDA out of memory")) return words_on_gpu_memory(text);
  if (const auto size = between(text, "you tried to allocate ", " bytes"); !size.empty())
    return fmt::format("not enough memory for {} bytes at once", size);
  if (dynamic_cast<const std::bad_alloc*>(&error)) return "not enough memory";
  if (dynamic_cast<const std::length_error*>(&error)) return "sizes are too large for any memory";
  if (dynamic_cast<const nlohmann::json::exception*>(&error))  // "[json.exception.xyz.123] reason"
    return "a JSON file is malformed:  " + text.substr(std::min(text.size(), text.find("] ") + 2));
  // LibTorch explains itself over many lines; the first one says what happened.
  return printable(text.substr(0, text.find('\n')), 1000);
}

bool reader_is_gone(const std::exception& error) {
  const auto* failure = dynamic_cast<const std::system_error*>(&error);
  return failure != nullptr && failure->code() == std::errc::broken_pipe;
}

}  // namespace geores::cli
