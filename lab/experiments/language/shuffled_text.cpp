#include "lab/experiments/language/shuffled_text.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/files/folder_lock.h"
#include "geores/base/files/remove_folder.h"
#include "geores/base/json.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kShuffleSeed = 20240917;

// The Fisher–Yates shuffle, with the same draws on every machine.
std::vector<std::byte> permuted_ids(const std::vector<std::byte>& bytes, const std::string& where) {
  require(bytes.size() % sizeof(uint16_t) == 0, where, "has an odd number of bytes, {}",
          bytes.size());
  std::vector<uint16_t> ids(bytes.size() / sizeof(uint16_t));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  std::mt19937_64 random(kShuffleSeed);
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[random() % i]);
  std::vector<std::byte> result(bytes.size());
  std::memcpy(result.data(), ids.data(), bytes.size());
  return result;
}

// The part of data.json about the text. The list of checked files is about the folder.
nlohmann::json facts_of(const fs::path& folder) {
  const auto file = folder / "data.json";
  if (!fs::exists(file)) return nullptr;
  auto facts = parse_json(read_text_file(file), file.string());
  if (facts.is_object()) facts.erase("checked");
  return facts;
}

}  // namespace

void make_shuffled_text(const fs::path& folder) {
  auto to = folder;
  to += kShuffled;
  const bool can_make = fs::is_directory(folder);
  if (fs::exists(to) && (!can_make || facts_of(to) == facts_of(folder))) return;
  require(can_make, "reproduce", "{} is not there: prepare it with geores data text",
          folder.string());
  const FolderLock lock(folder);  // another process may be creating the same folder
  if (fs::exists(to) && facts_of(to) == facts_of(folder)) return;
  auto part = to;
  part += ".part";
  remove_folder(part);
  std::error_code error;
  fs::create_directories(part, error);
  require(!error, "reproduce", "cannot create {}: {}", part.string(), error.message());
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().extension() == ".lock") continue;
    const auto bytes = read_file(entry.path());
    write_file_atomically(
        part / entry.path().filename(),
        entry.path().extension() == ".bin" ? permuted_ids(bytes, entry.path().string()) : bytes);
  }
  remove_folder(to);  // an older text's
  fs::rename(part, to, error);
  require(!error, "reproduce", "cannot rename {}: {}", part.string(), error.message());
}

}  // namespace geores
