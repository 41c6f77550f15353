// libgeores_sentencepiece.so: the library behind sentencepiece_calls.h.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "geores/text/sentencepiece/sentencepiece_calls.h"

namespace {

using geores::SentencePieceCalls;
using Processor = sentencepiece::SentencePieceProcessor;

class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::vector<std::string> lines) : lines_(std::move(lines)) {}
  bool done() const override { return next_ >= lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> lines_;
  size_t next_ = 0;
};

void give(SentencePieceCalls::Take take, void* to, const std::string& text) {
  take(to, text.data(), text.size());
}

// f(), which returns a status; no exception leaves this library.
template <class F>
bool succeeds(SentencePieceCalls::Take problem, void* to, F&& f) {
  try {
    const sentencepiece::util::Status status = f();
    if (status.ok()) return true;
    give(problem, to, status.message());
  } catch (const std::exception& error) {
    give(problem, to, error.what());
  }
  return false;
}

bool train(const char* const* lines, const size_t* sizes, size_t count, int64_t vocabulary,
           const char* end_of_text, SentencePieceCalls::Take model,
           SentencePieceCalls::Take problem, void* to) {
  return succeeds(problem, to, [&] {
    std::vector<std::string> copies;
    for (size_t i = 0; i < count; ++i) copies.emplace_back(lines[i], sizes[i]);
    Lines sentences(std::move(copies));
    std::string made;
    const auto status =
        sentencepiece::SentencePieceTrainer::Train({{"model_type", "bpe"},
                                                    {"vocab_size", std::to_string(vocabulary)},
                                                    {"normalization_rule_name", "identity"},
                                                    {"byte_fallback", "true"},
                                                    {"add_dummy_prefix", "false"},
                                                    {"remove_extra_whitespaces", "false"},
                                                    {"control_symbols", end_of_text},
                                                    {"bos_id", "-1"},
                                                    {"eos_id", "-1"},
                                                    {"max_sentence_length", "100000"},
                                                    {"num_threads", "2"},
                                                    {"minloglevel", "2"}},
                                                   &sentences, &made);
    if (status.ok()) give(model, to, made);
    return status;
  });
}

void* load(const char* model, size_t size, SentencePieceCalls::Take problem, void* to) {
  auto processor = std::make_unique<Processor>();
  const bool loaded = succeeds(
      problem, to, [&] { return processor->LoadFromSerializedProto(std::string(model, size)); });
  return loaded ? processor.release() : nullptr;
}

const Processor& processor_of(const void* loaded) { return *static_cast<const Processor*>(loaded); }

void close(void* loaded) { delete static_cast<Processor*>(loaded); }

int pieces(const void* loaded) { return processor_of(loaded).GetPieceSize(); }

void piece(const void* loaded, int id, SentencePieceCalls::Take take, void* to) {
  give(take, to, processor_of(loaded).IdToPiece(id));
}

bool encode(const void* loaded, const char* line, size_t size, void (*take)(void* to, int id),
            SentencePieceCalls::Take problem, void* to) {
  return succeeds(problem, to, [&] {
    std::vector<int> ids;
    const auto status = processor_of(loaded).Encode({line, size}, &ids);
    for (const int id : ids) take(to, id);
    return status;
  });
}

}  // namespace

extern "C" const SentencePieceCalls* geores_sentencepiece_calls() {
  static const SentencePieceCalls calls{train, load, close, pieces, piece, encode};
  return &calls;
}
