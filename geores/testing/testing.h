// Helpers for tests of readers and writers. For tests only.
//   EXPECT_EQ(refusal([&] { parse_json("{", "a.json"); }), "[a.json] not valid JSON: ...");
//   const TemporaryFolder folder;  save(folder.path() / "x.npy");
//   for (int i = 0; i < 10000; ++i) parse(mutate(valid_file, 120, random));
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "geores/base/error.h"
#include "geores/base/files/remove_folder.h"

namespace geores {

// The text of the Error that the call throws; "" if it throws none. Checks that the text is one
// line that can be put into JSON. Any other exception fails the test.
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find_first_of("\r\n"), text.npos) << "not one line: " << text;
    EXPECT_NO_THROW(nlohmann::json(text).dump());
    EXPECT_FALSE(text.empty());
    return text;
  }
  return "";
}

inline std::vector<std::byte> to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<std::byte> to_bytes(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An empty folder; the destructor removes it with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    auto name = (std::filesystem::temp_directory_path() / "geores-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { remove_folder(path_); }

  const std::filesystem::path& path() const { return path_; }

  std::ptrdiff_t file_count() const {
    return std::distance(std::filesystem::directory_iterator(path_), {});
  }

 private:
  std::filesystem::path path_;
};

// Makes one to three random changes, half of them within the first header_size bytes: flips bits,
// truncates, inserts, removes or moves a stretch, or edits a length field or a number.
inline std::string mutate(std::string text, std::size_t header_size, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : random() % limit; };
  const auto position = [&] {
    return below(below(2) == 0 ? std::min(header_size, text.size()) : text.size());
  };
  static constexpr uint64_t lengths[] = {0,          1,          7,          1u << 31,
                                         1ull << 32, 1ull << 60, 1ull << 63, ~uint64_t{0}};
  static constexpr std::string_view words[] = {"-1",    "0",   "4294967296", "9223372036854775808",
                                               "1e400", "1.5", "[",          "{",
                                               "\"",    "'",   "}",          "]",
                                               ",",     "(",   "null",       "true",
                                               "F64",   "<",   ">",          "|"};
  for (auto injuries = 1 + below(1 + below(3)); injuries > 0 && !text.empty(); --injuries) {
    const auto at = position();
    switch (below(8)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text[at] = static_cast<char>(random());
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.insert(at, 1 + below(9), static_cast<char>(random()));
        break;
      case 4:
        text.erase(at, 1 + below(9));
        break;
      case 5: {
        const auto piece = text.substr(position(), 1 + below(60));
        below(2) == 0 ? text.insert(at, piece) : text.replace(at, piece.size(), piece);
        break;
      }
      case 6: {
        const auto length = below(2) == 0 ? lengths[below(std::size(lengths))] : below(text.size());
        std::memcpy(text.data(), &length, std::min(text.size(), sizeof length));
        break;
      }
      default: {
        const auto digit = std::min(text.find_first_of("0123456789", at), text.size());
        const auto word = words[below(std::size(words))];
        text.replace(digit, below(3), word);
      }
    }
  }
  return text;
}

}  // namespace geores
