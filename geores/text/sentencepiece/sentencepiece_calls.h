// The interface to SentencePiece, which is in a separate library, libgeores_sentencepiece.so, and is
// opened when it is needed (sentencepiece_library.h). Plain C: the two sides may have different allocators and
// different versions of protobuf, so only bytes that the other side copies go across.
#pragma once

#include <cstddef>
#include <cstdint>

namespace geores {

struct SentencePieceCalls {
  using Take = void (*)(void* to, const char* bytes, size_t size);

  // Learns `vocabulary` pieces from lines and hands over the model, or what went wrong: then false.
  bool (*train)(const char* const* lines, const size_t* sizes, size_t count, int64_t vocabulary,
                const char* end_of_text, Take model, Take problem, void* to);

  // Null, and what went wrong, for bytes that are no model.
  void* (*load)(const char* model, size_t size, Take problem, void* to);
  void (*close)(void* loaded);
  int (*pieces)(const void* loaded);
  void (*piece)(const void* loaded, int id, Take take, void* to);
  bool (*encode)(const void* loaded, const char* line, size_t size, void (*take)(void* to, int id),
                 Take problem, void* to);
};

// The one function that the library exports.
inline constexpr const char* kSentencePieceEntry = "geores_sentencepiece_calls";

}  // namespace geores
