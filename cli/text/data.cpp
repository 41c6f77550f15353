#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "geores/base/error.h"
#include "geores/text/prepare.h"

namespace geores::cli {
namespace {

void print_split(const std::string& name, const TextFacts& facts) {
  fmt::print("{:<6} {:>12} ids  {:>12} bytes  {:>10} words  {:>6} documents  {:.3f} bytes an id\n",
             name, facts.ids, facts.bytes, facts.words, facts.documents,
             static_cast<double>(facts.bytes) / static_cast<double>(facts.ids));
}

void prepare(const PrepareOptions& options, bool overwrite) {
  const std::filesystem::path out = options.out;
  require(!std::filesystem::exists(out / "config.json"), options.out, "holds a run, not text");
  for (const auto* name : kPreparedFiles)
    require(overwrite || !std::filesystem::exists(out / name), options.out,
            "holds {} already; --overwrite replaces prepared text", name);
  const auto made = prepare_text(options);
  fmt::print("{}: tokeniser {}, vocabulary {}\n", options.out, made.tokenizer, made.vocabulary);
  for (const auto* name : {"train", "val", "test"})
    if (const auto found = made.splits.find(name); found != made.splits.end())
      print_split(name, found->second);
  fmt::print("unigram entropy of train: {:.4f} nats an id\n", made.unigram_entropy);
}

std::string on_one_line(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void show(const std::string& folder, int64_t vocabulary) {
  const auto text = PreparedText::open(folder, vocabulary);
  fmt::print("{}: vocabulary {}\n", folder, text.vocabulary());
  for (const auto& [name, split] : text.splits()) {
    if (split.facts)
      print_split(name, *split.facts);
    else
      fmt::print("{:<6} {:>12} ids\n", name, split.ids().size());
    fmt::print("       unigram entropy {:.4f} nats an id; all ids are below the vocabulary\n",
               unigram_entropy(split.ids()));
  }
  if (!text.tokenizer()) {
    fmt::print("no data.json: the ids cannot be decoded\n");
    return;
  }
  const auto& tokenizer = *text.tokenizer();
  fmt::print("tokeniser {}, sha256 {}\n", tokenizer.name(), tokenizer.fingerprint().substr(0, 16));
  std::vector<std::string> pieces;
  for (int64_t id = 0; id < text.vocabulary(); ++id)
    pieces.emplace_back(tokenizer.piece(static_cast<Id>(id)));
  std::ranges::stable_sort(pieces, std::ranges::greater(),
                           [](const std::string& piece) { return piece.size(); });
  fmt::print("longest pieces:");
  for (size_t i = 0; i < std::min<size_t>(8, pieces.size()); ++i)
    fmt::print(" {}", on_one_line(pieces[i]));
  const auto& first = text.splits().begin()->second;
  const auto some = first.ids().subspan(0, std::min<size_t>(40, first.ids().size()));
  fmt::print("\n{} begins: {}\n", text.splits().begin()->first,
             on_one_line(tokenizer.decode(some)));
}

}  // namespace

void add_data(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("data", "Prepare text or puzzles for training, and look at them.");
  command->require_subcommand(1);

  auto options = std::make_shared<PrepareOptions>();
  auto* text = command->add_subcommand(
      "text",
      "Turns text into ids: train.bin, val.bin and test.bin as nanoGPT has them, data.json and "
      "the\n"
      "tokeniser.\n"
      "Examples:\n"
      "  geores data text --input a.txt --tokenizer chars --out data/a\n"
      "  geores data text --input books.txt --separator '<|endoftext|>' --cut documents\n"
      "                   --tokenizer bpe --vocabulary 8192 --out data/books\n"
      "  geores data text --input talks.txt --tokenizer-of data/books --out data/talks");
  text->add_option("--input", options->input, "files of text to learn from")->required();
  text->add_option("--valid", options->valid, "files to validate on; else a part of --input");
  text->add_option("--test", options->test, "files for a test split");
  text->add_option("--out", options->out, "folder to write")->required();
  text->add_option("--tokenizer", options->tokenizer,
                   "bytes, chars, gpt2, bpe or sentencepiece [bytes]");
  text->add_option("--tokenizer-of", options->tokenizer_of,
                   "a folder of prepared text: its tokeniser, so that a model of one text can be "
                   "evaluated on the other");
  text->add_option("--vocabulary", options->vocabulary,
                   "ids of bpe, pieces of sentencepiece [8192]");
  text->add_option("--merges", options->merges, "gpt2: the file vocab.bpe");
  text->add_option("--valid-fraction", options->valid_fraction,
                   "the last part of the characters is for validation [0.1]");
  text->add_option("--separator", options->separator,
                   "text between documents; each then ends with an end of text");
  text->add_option("--cut", options->cut, "characters, or documents: between two of them");
  text->add_flag("--lossy", options->lossy, "replace bytes that the tokeniser would refuse");
  auto overwrite = std::make_shared<bool>(false);
  text->add_flag("--overwrite", *overwrite, "replace the text in --out");
  text->callback([options, overwrite, text, &exit_code] {
    require(text->count("--tokenizer-of") == 0 || text->count("--tokenizer") == 0, "data",
            "--tokenizer-of selects the tokeniser: omit --tokenizer");
    const auto asked = options->tokenizer_of.empty() ? options->tokenizer : "--tokenizer-of";
    require(text->count("--vocabulary") == 0 || asked == "bpe" || asked == "sentencepiece", "data",
            "--vocabulary is for bpe and sentencepiece, not for {}", asked);
    require(text->count("--merges") == 0 || asked == "gpt2", "data",
            "--merges is for gpt2, not for {}", asked);
    prepare(*options, *overwrite);
    exit_code = 0;
  });

  struct ShowFlags {
    std::string folder;
    int64_t vocabulary = 0;
  };
  auto flags = std::make_shared<ShowFlags>();
  auto* look = command->add_subcommand("show", "Show the contents of a folder of prepared text.");
  look->add_option("folder", flags->folder, "folder of prepared text")->required();
  look->add_option("--vocabulary", flags->vocabulary, "ids, for a folder without data.json");
  look->callback([flags, &exit_code] {
    show(flags->folder, flags->vocabulary);
    exit_code = 0;
  });
}

}  // namespace geores::cli
