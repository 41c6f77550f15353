#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "cli/commands.h"
#include "cli/terminal/output.h"
#include "cli/text/run_tokenizer.h"
#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/generation/generator.h"
#include "geores/ops/run/device_named.h"
#include "geores/text/utf8.h"
#include "geores/train/run/run_folder.h"

namespace geores::cli {
namespace {

volatile sig_atomic_t interrupted = 0;

// The first Ctrl-C requests an end, a second one ends the program. Without SA_RESTART, so that a
// read of a line returns. Ignored when the program started, it stays ignored.
void end_on_interrupt() {
  struct sigaction now {};
  if (sigaction(SIGINT, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) return;
  now.sa_handler = [](int) { interrupted = 1; };
  now.sa_flags = SA_RESETHAND;
  sigemptyset(&now.sa_mask);
  sigaction(SIGINT, &now, nullptr);
}

// Generating ends when its output is lost: the reader of a pipe may have ended.
void write_out(std::string_view text) {
  errno = 0;
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written && !interrupted)
    throw std::system_error(errno, std::generic_category(), "the output cannot be written");
}

struct GenerateFlags {
  std::string run, prompt_file, stop, device = "cpu";
  std::optional<std::string> prompt;
  GenerationOptions options = {.sampling = {.temperature = 0.8, .top_k = 200}};
  int64_t tokens = 200, samples = 1;
  bool no_cache = false, json = false, interactive = false, verbose = false, speed = false;
};

// Prints text as it is generated, except incomplete parts: a UTF-8 sequence, or the begin
// of the text to stop at.
class TextStream {
 public:
  TextStream(std::string stop, bool quiet) : stop_(std::move(stop)), quiet_(quiet) {}

  // False when the text to stop at has come; it is not printed.
  bool add(std::string_view piece) {
    pending_ += piece;
    if (!stop_.empty()) {
      if (const auto at = pending_.find(stop_); at != std::string::npos) {
        print(at);
        pending_.clear();
        return false;
      }
    }
    auto held = incomplete_tail(pending_);
    for (size_t length = std::min(stop_.size(), pending_.size()); length > held; --length)
      if (std::string_view(pending_).ends_with(std::string_view(stop_).substr(0, length)))
        held = length;
    print(pending_.size() - held);
    return true;
  }
  void finish() { print(pending_.size()); }
  const std::string& text() const { return text_; }

 private:
  void print(size_t count) {
    text_ += pending_.substr(0, count);
    if (!quiet_) write_out(std::string_view(pending_).substr(0, count));
    pending_.erase(0, count);
  }

  std::string stop_, pending_, text_;
  bool quiet_;
};

struct Written {
  std::string text;
  Ids ids;
  std::vector<double> log_probabilities;
  double seconds = 0;
  int64_t times_reread = 0;
};

Written write_one(Model& model, const Tokenizer& tokenizer, const Ids& prompt,
                  const GenerateFlags& flags, uint64_t sample) {
  const auto start = std::chrono::steady_clock::now();
  Generator generator(model, prompt, flags.options, sample);
  TextStream out(flags.stop, flags.json);
  Written written;
  for (int64_t i = 0; i < flags.tokens && !interrupted; ++i) {
    const auto chosen = generator.next();
    written.ids.push_back(chosen.id);
    written.log_probabilities.push_back(chosen.log_probability);
    if (!out.add(tokenizer.piece(chosen.id))) break;
  }
  out.finish();
  written.text = out.text();
  written.times_reread = generator.times_reread();
  written.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return written;
}

Ids prompt_ids(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.encode(text, "prompt");
  require(!ids.empty(), "generate", "the prompt gives no ids");
  return ids;
}

std::string all_of_standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

void tell_speed(const Written& written, const GenerateFlags& flags) {
  if (flags.speed || flags.verbose)
    say("{} tokens in {:.3f} s: {:.0f} tokens/s {} cache\n", written.ids.size(), written.seconds,
        static_cast<double>(written.ids.size()) / written.seconds,
        flags.options.cache ? "with" : "without");
  if (flags.verbose && written.times_reread > 0)
    say("the context was full {} times: its last half was read again\n", written.times_reread);
}

nlohmann::json to_json(const Ids& prompt, const Written& written) {
  return {{"prompt", prompt},
          {"text", written.text},
          {"ids", written.ids},
          {"log_probabilities", written.log_probabilities},
          {"seconds", written.seconds},
          {"tokens_per_second", static_cast<double>(written.ids.size()) / written.seconds}};
}

std::string dumped(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Continues each line of standard input. A line that it cannot read does not end the conversation.
void converse(Model& model, const Tokenizer& tokenizer, const GenerateFlags& flags) {
  uint64_t sample = 0;
  for (std::string line; !interrupted && std::getline(std::cin, line);) {
    if (line.empty()) continue;
    Ids prompt;
    try {
      prompt = prompt_ids(tokenizer, line);
    } catch (const Error& error) {
      say("geores: {}\n", error.what());
      continue;
    }
    const auto written = write_one(model, tokenizer, prompt, flags, sample++);
    write_out(flags.json ? dumped(to_json(prompt, written), -1) : "\n");
    tell_speed(written, flags);
  }
}

void generate(GenerateFlags flags) {
  require(flags.tokens >= 1, "generate", "tokens must be >= 1, got {}", flags.tokens);
  require(flags.samples >= 1, "generate", "samples must be >= 1, got {}", flags.samples);
  require(flags.options.sampling.top_k >= 1, "generate", "top-k must be >= 1, got {}",
          flags.options.sampling.top_k);
  flags.options.sampling.check();
  flags.options.cache = !flags.no_cache;
  require(!flags.prompt || flags.prompt_file.empty(), "generate",
          "give either --prompt or --prompt-file");
  const auto run = load_run(flags.run);
  run.config.task.require_sequences();
  require(run.model->input().tokens(), "generate", "{} is not a run on text", flags.run);
  const auto tokenizer = tokenizer_of_run(flags.run);
  require(tokenizer->vocabulary() == run.model->input().vocabulary, flags.run,
          "its tokeniser has a vocabulary of {}, its model one of {}", tokenizer->vocabulary(),
          run.model->input().vocabulary);
  run.model->to(device_named(flags.device, "generate"));
  end_on_interrupt();
  if (flags.interactive) return converse(*run.model, *tokenizer, flags);
  std::string text;
  if (flags.prompt) text = *flags.prompt;
  if (!flags.prompt_file.empty())
    text = flags.prompt_file == "-" ? all_of_standard_input() : read_text_file(flags.prompt_file);
  const bool given = flags.prompt || !flags.prompt_file.empty();
  const auto prompt = given ? prompt_ids(*tokenizer, text) : Ids{tokenizer->before_first()};
  auto results = nlohmann::json::array();
  for (int64_t sample = 0; sample < flags.samples && !interrupted; ++sample) {
    if (!flags.json) fmt::print("{}{}", sample > 0 ? "---------------\n" : "", text);
    const auto written =
        write_one(*run.model, *tokenizer, prompt, flags, static_cast<uint64_t>(sample));
    results.push_back(to_json(prompt, written));
    if (!flags.json) fmt::print("\n");
    tell_speed(written, flags);
  }
  if (flags.json) write_out(dumped(results, 2));
}

// Why a text is no seed; "" if it is one. CLI11 takes the nearest number instead.
std::string not_a_seed(const std::string& text) {
  int64_t seed = 0;
  const auto* const end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, seed);
  if (problem == std::errc() && stopped == end && seed >= 0) return "";
  return fmt::format("a seed must be in 0..{}, got {}", std::numeric_limits<int64_t>::max(),
                     quote(text));
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<GenerateFlags>();
  auto* command = app.add_subcommand(
      "generate",
      "Text from a run that was trained on text. It is printed as it comes.\n"
      "Examples:\n"
      "  geores generate --run runs/a --prompt 'The ' --tokens 200 --temperature 0.8 --top-k 200\n"
      "  geores generate --run runs/a --interactive");
  auto& sampling = flags->options.sampling;
  command->add_option("--run", flags->run, "folder of the run")->required();
  command->add_option(
      "--prompt", flags->prompt,
      "text to continue; default: the id before a text, an end of text or a line end");
  command->add_option("--prompt-file", flags->prompt_file,
                      "the same from a file; -: standard input");
  command->add_option("--tokens", flags->tokens, "how many [200]");
  command->add_option("--samples", flags->samples, "how many texts [1]");
  command->add_option("--temperature", sampling.temperature, "0: always the likeliest token [0.8]");
  command->add_option("--top-k", sampling.top_k, "only the k likeliest tokens [200]");
  command->add_option("--top-p", sampling.top_p, "only the likeliest, up to this probability [1]");
  command->add_option("--repetition-penalty", sampling.repetition_penalty,
                      "makes tokens less likely that were there [1]");
  command->add_option("--stop", flags->stop, "end before this text");
  command->add_option("--seed", sampling.seed, "of the random choices [1337]")
      ->check(CLI::Validator(not_a_seed, "UINT"));
  command->add_flag("--no-cache", flags->no_cache, "read the whole window for every token");
  command->add_flag("--interactive", flags->interactive, "continue each line of standard input");
  command->add_flag("--speed", flags->speed, "say how many tokens a second");
  command->add_flag("--verbose", flags->verbose, "say also when the context was full");
  command->add_flag("--json", flags->json,
                    "ids, their log-probabilities among those that could be chosen, seconds");
  command->add_option("--device", flags->device, "cpu or cuda [cpu]");
  command->callback([flags, command, &exit_code] {
    if (flags->interactive)
      for (const auto* flag : {"--prompt", "--prompt-file", "--samples"})
        require(command->count(flag) == 0, "generate",
                "--interactive continues the lines of standard input, each once: omit {}", flag);
    generate(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
