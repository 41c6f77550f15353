// A strict JSON reader for models: the header of a safetensors file and a run's
// config.json. base/ reads JSON with nlohmann-json, which alone is twice the size that the whole
// predictor may have in the browser.
//   const JsonDocument header(text, "best.safetensors");
//   for (const Json& tensor : header.root()) tensor.key(), tensor.find("shape") ...
// Refused in one line: anything that is not JSON, a key given twice, nesting deeper than 32, more than
// 10,000 keys in one object.
#pragma once

#include <string_view>

#include "geores/portable/arena.h"

namespace geores::portable {

// A value of a document. All values are in one array, each followed by its members.
class Json {
 public:
  enum class Kind : unsigned char { null, boolean, number, string, array, object };

  Kind kind() const { return kind_; }
  bool boolean() const { return number_ != 0; }
  double number() const { return number_; }
  std::string_view string() const { return string_; }
  std::string_view key() const { return key_; }  // of a member of an object

  const Json* find(std::string_view key) const;  // null: there is none
  const Json* find(const char* key) const { return find(std::string_view(key)); }

  class Iterator {
   public:
    explicit Iterator(const Json* at) : at_(at) {}
    const Json& operator*() const { return *at_; }
    Iterator& operator++() {
      at_ += at_->size_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const Json* at_;
  };
  // Items of an array, members of an object; of another value none.
  Iterator begin() const { return Iterator(this + 1); }
  Iterator end() const { return Iterator(this + size_); }

 private:
  friend class JsonReader;
  std::string_view key_, string_;
  double number_ = 0;
  int size_ = 1;  // values from here to its last member
  Kind kind_ = Kind::null;
};

class JsonDocument {
 public:
  // `where` names the text in errors.
  JsonDocument(std::string_view text, const char* where);
  const Json& root() const { return *root_; }

 private:
  Arena arena_;
  const Json* root_;
};

}  // namespace geores::portable
