// Robustness of the commands for text: closed pipes, signals, prompts, existing files, folders other
// than a run's training data.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/text_program.h"

namespace geores {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A process of the program, connected to this one by pipes.
class Conversation {
 public:
  Conversation(const std::string& arguments, const fs::path& folder) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return;
    child_ = start_program(arguments, {.folder = folder, .output = out[1], .before = [&] {
                                         dup2(in[0], STDIN_FILENO);
                                         for (const auto end : {in[1], out[0], out[1]}) close(end);
                                       }});
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Conversation() {
    hang_up();
    close(to_);
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  void say(const std::string& text) const {
    EXPECT_EQ(write(to_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string hear(size_t bytes) const {
    std::string text;
    char next;
    while (text.size() < bytes && read(from_, &next, 1) == 1) text += next;
    return text;
  }
  std::string hear_line() const {
    std::string text;
    for (char next; read(from_, &next, 1) == 1 && next != '\n';) text += next;
    return text;
  }
  void hang_up() {
    if (from_ >= 0) close(from_);
    from_ = -1;
  }
  void send(int number) const { kill(child_, number); }

  // The exit code; a process that does not end by itself is killed.
  int end() const {
    int status = 0;
    bool ended = false;
    wait_until([&] { return (ended = waitpid(child_, &status, WNOHANG) == child_); });
    if (!ended) {
      kill(child_, SIGKILL);
      waitpid(child_, &status, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
};

class TextCommands : public TextProgram {
 protected:
  static std::string lines() {
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format("line {} of it\n", i * i % 97);
    return text;
  }
};

TEST_F(TextCommands, GenerateEndsWithItsReader) {
  train_on(lines(), "chars");
  Conversation once("generate --run run --tokens 100000000 --prompt line", temporary_.path());
  EXPECT_EQ(once.hear(5).substr(0, 4), "line");
  once.hang_up();
  EXPECT_EQ(once.end(), 1);
  Conversation interactive("generate --run run --tokens 100000000 --interactive",
                           temporary_.path());
  interactive.say("line\n");
  EXPECT_EQ(interactive.hear(5).size(), 5u);
  interactive.hang_up();
  EXPECT_EQ(interactive.end(), 1);
}

TEST_F(TextCommands, AnInterruptEndsGenerateAlsoWhileItWaits) {
  train_on(lines(), "chars");
  Conversation waiting("generate --run run --tokens 3 --interactive --top-k 1", temporary_.path());
  waiting.say("line 1\n");
  waiting.hear_line();
  std::this_thread::sleep_for(200ms);  // until it reads the next line
  waiting.send(SIGINT);
  EXPECT_EQ(waiting.end(), 0);
  Conversation busy("generate --run run --tokens 100000000 --prompt line", temporary_.path());
  EXPECT_EQ(busy.hear(8).substr(0, 4), "line");
  busy.send(SIGINT);
  while (!busy.hear(4096).empty()) continue;
  EXPECT_EQ(busy.end(), 0);
}

TEST_F(TextCommands, InteractiveSpeaksJson) {
  train_on(lines(), "chars");
  Conversation talk("generate --run run --tokens 3 --interactive --json", temporary_.path());
  for (const auto* line : {"line 1", "it"}) {
    talk.say("€\n" + std::string(line) +
             "\n");  // € is not in the vocabulary, and the next line is answered
    EXPECT_TRUE(talk.hear_line().starts_with("geores: [prompt] ")) << line;
    const auto answer = nlohmann::json::parse(talk.hear_line(), nullptr, false);
    ASSERT_TRUE(answer.is_object()) << line;
    EXPECT_EQ(answer["ids"].size(), 3u);
    EXPECT_EQ(answer["prompt"].size(), std::string(line).size());
  }
  for (const auto* flag : {"--prompt", "--prompt-file", "--samples"})
    refuse(fmt::format("generate --run run --interactive {} 2", flag),
           fmt::format("[generate] --interactive continues the lines of standard input, each once: "
                       "omit {}",
                       flag));
}

TEST_F(TextCommands, PromptsComeFromFilesAndStandardInput) {
  train_on(lines(), "chars", 30);
  const std::string rest = " --tokens 12 --temperature 0";
  const auto given = run("generate --run run --prompt 'line 1'" + rest).output;
  EXPECT_TRUE(given.starts_with("line 1")) << given;
  write("prompt.txt", "line 1");
  EXPECT_EQ(run("generate --run run --prompt-file prompt.txt" + rest).output, given);
  const auto from_standard_input = [&] {
    const auto file = open((temporary_.path() / "prompt.txt").c_str(), O_RDONLY);
    dup2(file, STDIN_FILENO);
  };
  EXPECT_EQ(run_program("generate --run run --prompt-file -" + rest,
                        {.folder = temporary_.path(), .before = from_standard_input})
                .output,
            given);
  // A penalty without end: no token comes twice.
  const auto ids = json_of(
                       "generate --run run --prompt l --tokens 8 --temperature 0 "
                       "--repetition-penalty 1e30")[0]["ids"]
                       .get<std::vector<int>>();
  EXPECT_EQ(std::set<int>(ids.begin(), ids.end()).size(), ids.size());
}

// Text without a line end has no default prompt of its own; one that is given does not need it.
TEST_F(TextCommands, AGivenPromptNeedsNoDefault) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "abc bca cab ";
  train_on(text, "chars");
  EXPECT_TRUE(run("generate --run run --prompt abc --tokens 5").output.starts_with("abc"));
  // Id 0 precedes the text, as in `eval`.
  EXPECT_EQ(json_of("generate --run run --tokens 5")[0]["prompt"], nlohmann::json({0}));
}

TEST_F(TextCommands, DataReplacesNothingUnasked) {
  write("a.txt", lines());
  for (const auto* name :
       {"train.bin", "val.bin", "test.bin", "tokenizer.json", "tokenizer.model"}) {
    fs::create_directory(temporary_.path() / "nano");
    write(fmt::format("nano/{}", name), "ab");
    refuse("data text --input a.txt --out nano",
           fmt::format("[nano] holds {} already; --overwrite replaces prepared text", name));
    EXPECT_EQ(read_text_file(temporary_.path() / "nano" / name), "ab");
    remove_folder(temporary_.path() / "nano");
  }
  fs::create_directories(temporary_.path() / "nano/unfinished");
  write("nano/unfinished/mine", "ab");
  succeed("data text --input a.txt --out nano");
  EXPECT_TRUE(fs::exists(temporary_.path() / "nano/unfinished/mine"));
}

TEST_F(TextCommands, WordPerplexityOfTextWithUnknownWordsSaysSo) {
  train_on(lines(), "bytes");
  const auto plain = run("eval --run run");
  EXPECT_EQ(plain.output.find("<unk>"), std::string::npos) << plain.output;
  EXPECT_NE(plain.output.find("6-gram"), std::string::npos) << plain.output;
  EXPECT_FALSE(json_of("eval --run run").contains("unknown_words"));
  write("unknown.txt", "it is <unk> of <unk>\nnot a<unk>\n");
  write("b.txt", lines());
  succeed("data text --input b.txt --valid unknown.txt --out unknown");
  EXPECT_EQ(json_of("eval --run run --data unknown")["unknown_words"], 2);
  const auto said = run("eval --run run --data unknown").output;
  EXPECT_NE(
      said.find("\nthe text has the word <unk> 2 times: its word perplexity is lower than that "
                "of the words that it replaces\n"),
      std::string::npos)
      << said;
}

TEST_F(TextCommands, DropoutsPriceIsSaidOnce) {
  train_on(lines(), "chars");
  const auto train =
      fmt::format("train --task text --data data --overwrite --out run --steps 2 {}", kModel);
  const std::string notice = "geores: with dropout, attention keeps the weights";
  EXPECT_EQ(run(train).output.find(notice), std::string::npos);
  const auto said = run(train + " --dropout 0.1").output;
  ASSERT_NE(said.find(notice), std::string::npos) << said;
  EXPECT_EQ(said.find(notice, said.find(notice) + 1), std::string::npos) << said;
}

// A folder of nanoGPT's: ids without a tokeniser.
TEST_F(TextCommands, EvalOfBareIds) {
  train_on(lines(), "bytes");
  fs::create_directory(temporary_.path() / "nano");
  for (const auto* name : {"train.bin", "val.bin"})
    fs::copy(temporary_.path() / "data" / name, temporary_.path() / "nano" / name);
  // The model says how many ids there are.
  const auto bare = json_of("eval --run run --data nano"), own = json_of("eval --run run");
  EXPECT_EQ(bare["rows"][0]["nats"], own["rows"][0]["nats"]);
  EXPECT_FALSE(bare["rows"][0].contains("bits_per_byte"));
  succeed(fmt::format("train --task text --data nano --vocabulary 257 --steps 2 --out bare {}",
                      kModel));
  succeed("eval --run bare");
  succeed("eval --run bare --data nano");
  refuse("eval --run bare --data data",
         "[eval] data is prepared with the tokeniser bytes; the tokeniser of bare is unknown");
}

// A relative folder is one of the moment; a run is for later.
TEST_F(TextCommands, ARunFindsItsDataFromElsewhere) {
  train_on(lines(), "chars");
  const auto elsewhere = temporary_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  const auto from_there = [&](const std::string& arguments) {
    return run_program(arguments, {.folder = elsewhere});
  };
  const auto evaluated = from_there("eval --run ../run");
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.output;
  fs::rename(temporary_.path() / "data", temporary_.path() / "moved");
  EXPECT_EQ(from_there("train --resume ../run").exit_code, 1);
  const auto resumed = from_there("train --resume ../run --data ../moved");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(from_there("eval --run ../run").exit_code, 0) << "the run records the new folder";

  write("a.txt", lines() + "line 5 of it\n");
  succeed("data text --input a.txt --tokenizer-of moved --out other");
  const auto refused = run("train --resume run --data other");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.output.find("cannot resume run: the data's"), std::string::npos)
      << refused.output;
}

// The ids themselves: data.json says only which text they were made from.
TEST_F(TextCommands, IdsThatChangedUnderARunAreRefused) {
  train_on(lines(), "chars");
  succeed("eval --run run");
  auto ids = read_text_file(temporary_.path() / "data/train.bin");
  std::swap(ids[0], ids[2]);
  write("data/train.bin", ids);
  const auto evaluated = run("eval --run run");
  EXPECT_EQ(evaluated.exit_code, 1) << evaluated.output;
  EXPECT_NE(
      evaluated.output.find("/data/train.bin] has changed since run was trained on it (sha256 "),
      std::string::npos)
      << evaluated.output;
  const auto resumed = run("train --resume run");
  EXPECT_EQ(resumed.exit_code, 1);
  EXPECT_NE(resumed.output.find("the data's 'train_ids_sha256' was"), std::string::npos)
      << resumed.output;
}

TEST_F(TextCommands, OddNumbersAreRefusedInOneLine) {
  train_on(lines(), "chars");
  refuse("eval --run run --stride 0", "[eval] the stride must be in 1..16, got 0");
  for (const auto* arguments :
       {"generate --run run --seed 99999999999999999999", "generate --run run --seed -1",
        "generate --run run --seed 9223372036854775808",
        "train --task text --data data --out x --seed 99999999999999999999"}) {
    const auto result = run(arguments);
    EXPECT_NE(result.exit_code, 0) << arguments;
    EXPECT_EQ(std::ranges::count(result.output, '\n'), 1) << result.output;
    EXPECT_NE(result.output.find("seed"), std::string::npos) << result.output;
  }
  auto facts = nlohmann::json::parse(read_text_file(temporary_.path() / "data/data.json"));
  facts["checked"] = {1};
  write("data/data.json", facts.dump());
  refuse("data show data", "[data/data.json] 'checked' must be an object, got [1]");
}

TEST_F(TextCommands, TrainHelpsWithText) {
  const auto help = run("train --help").output;
  EXPECT_NE(help.find("geores train --task text --data"), std::string::npos) << help;
  EXPECT_NE(help.find("folder of prepared text"), std::string::npos) << help;
  train_on(lines(), "chars");
  const auto refused = run("train --task text --data data --model edelta --pool sequence --out x");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.output.find("--pool causal"), std::string::npos) << refused.output;
  EXPECT_EQ(refused.output.find("allow_noncausal"), std::string::npos) << refused.output;
}

}  // namespace
}  // namespace geores
