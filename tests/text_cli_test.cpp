// Text from one end of the program to the other: prepared, trained on, evaluated, written.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "geores/base/file.h"
#include "geores/base/sha256.h"
#include "tests/text_program.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

TEST_F(TextProgram, PreparesTrainsEvaluatesAndWrites) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += fmt::format("the number {} is here.\n", i * i % 97);
  write("a.txt", text);
  succeed("data text --input a.txt --tokenizer chars --out data");
  const auto shown = run("data show data");
  EXPECT_NE(shown.output.find("train begins: \"the number 0 is here.\\nthe"), std::string::npos)
      << shown.output;
  succeed(
      "train --task text --data data --context 16 --model additive --layers 2 --width 32 --heads 2 "
      "--steps 150 --batch 16 --warmup 10 --lr 5e-3 --eval-interval 150 --eval-batches 2 "
      "--final-eval-batches 2 --schedule nanogpt --beta2 0.99 --out run");

  const auto evaluation = json_of("eval --run run --ngrams 3");
  const auto& rows = evaluation["rows"];
  ASSERT_EQ(rows.size(), 5u);  // the model, uniform, unigram, 2-gram, 3-gram
  const auto nats = rows[0]["nats"].get<double>(), ids = evaluation["ids"].get<double>();
  EXPECT_LT(nats, rows[2]["nats"].get<double>()) << "better than a unigram";
  EXPECT_NEAR(rows[0]["bits_per_byte"].get<double>(), nats / std::log(2.0), 1e-9) << "ASCII";
  const auto words = nlohmann::json::parse(read_text_file(temporary_.path() / "data/data.json"))
                         .at("splits")
                         .at("val")
                         .at("words")
                         .get<double>();
  EXPECT_NEAR(std::log(rows[0]["word_perplexity"].get<double>()), nats * ids / words, 1e-9);
  EXPECT_LT(json_of("eval --run run --stride 4 --ngrams 1")["rows"][0]["nats"].get<double>(), nats)
      << "more context";

  const auto cached = json_of("generate --run run --prompt 'the n' --tokens 40 --temperature 0"),
             whole = json_of(
                 "generate --run run --prompt 'the n' --tokens 8 --temperature 0 "
                 "--no-cache");
  EXPECT_EQ(cached[0]["text"].get<std::string>().substr(0, 8), whole[0]["text"].get<std::string>());
  EXPECT_EQ(cached[0]["ids"].size(), 40u) << "beyond the context of 16";
  const auto three = json_of("generate --run run --tokens 20 --samples 3 --seed 4"),
             one = json_of("generate --run run --tokens 20 --seed 4");
  EXPECT_EQ(three[0]["ids"], one[0]["ids"]);
  EXPECT_NE(three[0]["ids"], three[1]["ids"]);
  const auto printed = run("generate --run run --prompt 'the n' --tokens 40 --temperature 0");
  EXPECT_EQ(printed.output, "the n" + cached[0]["text"].get<std::string>() + "\n");
  const auto stopped =
      run("generate --run run --prompt 'the n' --tokens 40 --temperature 0 --stop 'er '");
  EXPECT_EQ(stopped.output, "the numb\n") << stopped.output;

  refuse("generate --run run --prompt ''", "[generate] the prompt gives no ids");
  refuse("generate --run run --prompt 'eQ'",
         "[prompt] the character U+0051 at byte offset 1 is not among the 23 of the vocabulary");
  refuse("generate --run run --temperature -1", "[generate] temperature must be >= 0, got -1");
  refuse("generate --run run --top-k 0", "[generate] top-k must be >= 1, got 0");
  refuse("generate --run run --tokens 0", "[generate] tokens must be >= 1, got 0");
  refuse("generate --run run --top-p 0", "[generate] top-p must be in (0, 1], got 0");
  // With a GPU it scores there.
  const auto there = run("eval --run run --device cuda");
  EXPECT_TRUE(there.exit_code == 0 ||
              there.output == "geores: [eval] device cuda was asked for, but there is none\n")
      << there.output;
  refuse("eval --run run --stride 17", "[eval] the stride must be in 1..16, got 17");

  refuse("data text --input a.txt --out data",
         "[data] holds train.bin already; --overwrite replaces prepared text");
  refuse("data text --input a.txt --overwrite --out run", "[run] holds a run, not text");
  for (const auto* flag : {"--votes 3", "--identifiers blank", "--submission x.json"})
    refuse(fmt::format("eval --run run {}", flag),
           fmt::format("[eval] {} is for runs on puzzles; run is one on text",
                       std::string(flag).substr(0, std::string(flag).find(' '))));

  write("b.txt", "quite other characters");
  succeed("data text --input b.txt --tokenizer chars --out other");
  refuse("eval --run run --data other",
         "[eval] other has a vocabulary of 12, the model of run one of 23");

  // As many characters, but others: an id would mean something else.
  std::string capital = text;
  for (auto& letter : capital) letter = letter == 't' ? 'T' : letter;
  write("c.txt", capital);
  succeed("data text --input c.txt --tokenizer chars --out capital");
  const auto fingerprint = [&](const char* folder) {
    const auto file = read_text_file(temporary_.path() / folder / "tokenizer.json");
    return sha256(nlohmann::json::parse(file).dump() + "\n").substr(0, 12);
  };
  refuse("eval --run run --data capital",
         fmt::format("[eval] capital is prepared with another tokeniser (sha256 {}) than run "
                     "(sha256 {})",
                     fingerprint("capital"), fingerprint("data")));
  write("run/tokenizer.json", read_text_file(temporary_.path() / "capital/tokenizer.json"));
  refuse(
      "generate --run run --prompt 'Th'",
      fmt::format("[run] its tokeniser has changed since the run began: it had the sha256 {} and "
                  "now has {}",
                  fingerprint("data"), fingerprint("capital")));
}

bool has_mapped(pid_t process, const std::string& name) {
  std::ifstream lines(fmt::format("/proc/{}/maps", process));
  for (std::string line; std::getline(lines, line);)
    if (line.ends_with("/" + name)) return true;
  return false;
}

TEST_F(TextProgram, AFileThatShrinksIsNamedInOneLine) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += fmt::format("line {} of it\n", i * i % 97);
  train_on(text, "chars");
  const auto shrunk = [&](const std::string& arguments, const std::string& file, uintmax_t bytes,
                          const std::function<bool(pid_t)>& is_reading) {
    const auto output = temporary_.path() / "output";
    const auto opened = open(output.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const auto child = start_program(arguments, {.folder = temporary_.path(), .output = opened});
    close(opened);
    wait_until([&] { return is_reading(child); });
    fs::resize_file(temporary_.path() / "data" / file, bytes);
    EXPECT_EQ(wait_for(child), 1) << arguments;
    const auto said = read_text_file(output);
    return said.substr(std::min(said.find("geores: "), said.size()));
  };
  const auto whole = read_text_file(temporary_.path() / "data/train.bin");
  EXPECT_EQ(
      shrunk(fmt::format("train --task text --data data {} --steps 10000000 --out long "
                         "--log-interval 10000000 --eval-interval 10000000",
                         kModel),
             "train.bin", 4096,
             [&](pid_t) { return fs::exists(temporary_.path() / "long/checkpoint.safetensors"); }),
      "geores: [data/train.bin] has become shorter while it was in use\n");
  write("data/train.bin", whole);
  // Zeros are left of the last page: that is noticed by the size.
  const auto size = fs::file_size(temporary_.path() / "data/val.bin");
  EXPECT_EQ(shrunk("eval --run run --stride 1", "val.bin", size - 2,
                   [](pid_t child) { return has_mapped(child, "val.bin"); }),
            fmt::format("geores: [{}/data/val.bin] has changed while it was in use: it had {} "
                        "bytes and now has {}\n",
                        temporary_.path().string(), size, size - 2));
}

// A full disk, as a limit on the size of files: no partial file stays, and the old file is kept.
TEST_F(TextProgram, AFullDiskLeavesNoHalfFile) {
  write("a.txt", std::string(9000, 'a') + std::string(9000, 'b'));
  const auto prepare = "data text --input a.txt --tokenizer chars --overwrite --out data";
  const auto files = [&] {
    std::vector<std::string> names;
    if (fs::exists(temporary_.path() / "data"))
      for (const auto& entry : fs::directory_iterator(temporary_.path() / "data"))
        names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  };
  const auto limit_files = [] {
    constexpr rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const auto limited = [&] {
    const auto result = run_program(prepare, {.folder = temporary_.path(), .before = limit_files});
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_EQ(std::ranges::count(result.output, '\n'), 1) << result.output;
    EXPECT_NE(result.output.find("train.bin"), std::string::npos) << result.output;
  };
  limited();
  for (const auto& name : files()) EXPECT_EQ(name.find(".bin"), std::string::npos) << name;
  succeed(prepare);
  const auto before = files();
  const auto ids = read_text_file(temporary_.path() / "data/train.bin");
  limited();
  EXPECT_EQ(files(), before);
  EXPECT_EQ(read_text_file(temporary_.path() / "data/train.bin"), ids);
  succeed("data show data");
}

TEST_F(TextProgram, RefusesBadTextInOneLine) {
  write("empty.txt", "");
  refuse("data text --input empty.txt --out data", "[empty.txt] is empty");
  write("bad.txt", "good \xFF");
  refuse("data text --input bad.txt --tokenizer chars --out data",
         "[bad.txt] byte 255 at offset 5 is not UTF-8; data text --lossy replaces such bytes, the "
         "tokeniser bytes takes them");
  EXPECT_FALSE(fs::exists(temporary_.path() / "data/data.json"));
  write("a.txt", "good text");
  refuse("data text --input a.txt --vocabulary 300 --out data",
         "[data] --vocabulary is for bpe and sentencepiece, not for bytes");
  refuse("data text --input a.txt --tokenizer chars --merges a.txt --out data",
         "[data] --merges is for gpt2, not for chars");
  refuse("train --task text --data nowhere --model additive --out run",
         "[nowhere] is no folder of prepared text");
  EXPECT_FALSE(fs::exists(temporary_.path() / "run"));
}

}  // namespace
}  // namespace geores
