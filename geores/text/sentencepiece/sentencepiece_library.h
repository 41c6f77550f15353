// SentencePiece, opened when a text asks for it (sentencepiece_calls.h says why it is a library of its own).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "geores/text/sentencepiece/sentencepiece_calls.h"

namespace geores {

// A model that encodes lines.
class SentencePieceModel {
 public:
  // Refuses, with `where`, bytes that are no model, and where there is no library.
  SentencePieceModel(const std::string& bytes, const std::string& where);

  // Learns pieces from lines and returns the model.
  static std::string train(const std::vector<std::string_view>& lines, int64_t vocabulary,
                           const std::string& end_of_text, const std::string& where);

  std::vector<std::string> pieces() const;
  std::vector<int> encode(std::string_view line, const std::string& where) const;

 private:
  const SentencePieceCalls& calls_;
  std::unique_ptr<void, void (*)(void*)> loaded_;
};

}  // namespace geores
