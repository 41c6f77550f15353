#include "geores/text/sentencepiece/sentencepiece_library.h"

#include <dlfcn.h>

#include "geores/base/error.h"

namespace geores {
namespace {

// RTLD_DEEPBIND: Debian's libsentencepiece has a protobuf of its own with the names of the one that LibTorch
// loads. It must use its own; linked together with LibTorch, a program hangs before main.
const SentencePieceCalls* open_library(std::string& problem) {
#ifdef GEORES_SENTENCEPIECE_FILE
  void* library = nullptr;
  for (const char* file : {"libgeores_sentencepiece.so", GEORES_SENTENCEPIECE_FILE}) {
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library != nullptr) break;
    problem = dlerror();
  }
  if (library == nullptr) return nullptr;
  using Entry = const SentencePieceCalls* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kSentencePieceEntry));
  if (entry == nullptr) problem = dlerror();
  return entry == nullptr ? nullptr : entry();
#else
  problem = "built without it";
  return nullptr;
#endif
}

const SentencePieceCalls& calls(const std::string& where) {
  static std::string problem;
  static const auto* const opened = open_library(problem);
  require(opened != nullptr, where,
          "needs SentencePiece: install libsentencepiece-dev and build again ({})", problem);
  return *opened;
}

void append(void* to, const char* bytes, size_t size) {
  static_cast<std::string*>(to)->append(bytes, size);
}

}  // namespace

SentencePieceModel::SentencePieceModel(const std::string& bytes, const std::string& where)
    : calls_(calls(where)), loaded_(nullptr, calls_.close) {
  std::string problem;
  loaded_.reset(calls_.load(bytes.data(), bytes.size(), append, &problem));
  require(loaded_ != nullptr, where, "SentencePiece: {}", problem);
}

std::string SentencePieceModel::train(const std::vector<std::string_view>& lines,
                                      int64_t vocabulary, const std::string& end_of_text,
                                      const std::string& where) {
  std::vector<const char*> starts;
  std::vector<size_t> sizes;
  for (const auto line : lines) {
    starts.push_back(line.data());
    sizes.push_back(line.size());
  }
  struct Made {
    std::string model, problem;
  } made;
  const bool learned = calls(where).train(
      starts.data(), sizes.data(), lines.size(), vocabulary, end_of_text.c_str(),
      [](void* to, const char* bytes, size_t size) {
        static_cast<Made*>(to)->model.append(bytes, size);
      },
      [](void* to, const char* bytes, size_t size) {
        static_cast<Made*>(to)->problem.append(bytes, size);
      },
      &made);
  require(learned, where, "SentencePiece: {}", made.problem);
  return made.model;
}

std::vector<std::string> SentencePieceModel::pieces() const {
  std::vector<std::string> all(static_cast<size_t>(calls_.pieces(loaded_.get())));
  for (size_t id = 0; id < all.size(); ++id)
    calls_.piece(loaded_.get(), static_cast<int>(id), append, &all[id]);
  return all;
}

std::vector<int> SentencePieceModel::encode(std::string_view line, const std::string& where) const {
  struct Encoded {
    std::vector<int> ids;
    std::string problem;
  } made;
  const bool encoded = calls_.encode(
      loaded_.get(), line.data(), line.size(),
      [](void* to, int id) { static_cast<Encoded*>(to)->ids.push_back(id); },
      [](void* to, const char* bytes, size_t size) {
        static_cast<Encoded*>(to)->problem.append(bytes, size);
      },
      &made);
  require(encoded, where, "SentencePiece: {}", made.problem);
  return made.ids;
}

}  // namespace geores
