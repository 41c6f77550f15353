// Makes prepared text (prepared.h) from files of text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "geores/text/prepared.h"

namespace geores {

struct PrepareOptions {
  std::vector<std::string> input = {}, valid = {}, test = {};  // files
  std::string out = {};                                        // folder
  std::string tokenizer = "bytes";  // bytes, chars, gpt2, bpe or sentencepiece
  std::string tokenizer_of = {};    // instead: that of this folder of prepared text
  int64_t vocabulary = 8192;        // bpe and sentencepiece
  std::string merges = {};          // gpt2: vocab.bpe
  // Without files to validate on, the last part of the characters of all files: nanoGPT cuts at
  // ⌊0.9 n⌋. A cut within a separator moves behind it.
  double valid_fraction = 0.1;
  // Separates documents: with it, or with several files, each document ends with an end of text, in
  // every split. A line end after the separator belongs to it.
  std::string separator = {};
  std::string cut = "characters";  // or documents: the cut moves to the next document's begin
  bool lossy = false;              // replaces bytes that the tokeniser would refuse
};

struct Prepared {
  std::map<std::string, TextFacts> splits;
  std::string tokenizer = {};
  int64_t vocabulary = 0;
  double unigram_entropy = 0;  // of train's ids, nats
};

// All that prepare_text() writes into its folder, or removes when it has no such file.
inline constexpr const char* kPreparedFiles[] = {"train.bin", "val.bin",        "test.bin",
                                                 "data.json", "tokenizer.json", "tokenizer.model"};

// The folder's files appear under their names only when they are complete, data.json last.
Prepared prepare_text(const PrepareOptions& options);

// −Σ p ln p of the frequencies of ids.
double unigram_entropy(std::span<const Id> ids);

}  // namespace geores
