#include "lab/experiments/shards/shard.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

int64_t count_in(std::string_view text) {
  int64_t value = 0;
  const auto end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && stopped == end ? value : -1;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

nlohmann::json object_in(const fs::path& file) {
  return parse_json(read_text_file(file), file.string());
}

void copy_run(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  require(!error, "reproduce", "cannot create {}: {}", to.string(), error.message());
  // result.json marks a run as finished, so it is copied last.
  for (const auto& file : entries(from))
    if (fs::is_regular_file(file) && file.filename() != "result.json" &&
        file.filename() != "in_use.lock")
      write_file_atomically(to / file.filename(), read_file(file));
  write_file_atomically(to / "result.json", read_file(from / "result.json"));
}

}  // namespace

Shard shard_from(const std::string& text) {
  const auto slash = text.find('/');
  const auto before = std::string_view(text).substr(0, slash);
  const Shard shard{
      .index = count_in(before),
      .count = slash == text.npos ? -1 : count_in(std::string_view(text).substr(slash + 1))};
  require(shard.count >= 1 && shard.index >= 1 && shard.index <= shard.count, "reproduce",
          "a shard is i/N with i in 1..N, got {}", quote(text));
  return shard;
}

Merged merge_reproduction(const std::string& from, const std::string& into) {
  const auto file = fs::path(from) / "reproduction.json";
  require(fs::exists(file), "reproduce", "{} holds no reproduction to merge", from);
  const auto theirs = object_in(file), ours = object_in(fs::path(into) / "reproduction.json");
  for (const auto& [key, value] : ours.items())
    require(theirs.contains(key) && theirs[key] == value, "reproduce",
            "{} is a reproduction with {} {}, that in {} has {}", from, key,
            theirs.value(key, nlohmann::json()).dump(), into, value.dump());
  Merged merged;
  for (const auto& run : entries(fs::path(from) / "runs")) {
    if (!fs::exists(run / "result.json")) continue;
    const auto to = fs::path(into) / "runs" / run.filename();
    if (fs::exists(to / "config.json"))
      require(object_in(to / "config.json") == object_in(run / "config.json"), "reproduce",
              "run {} has another configuration in {} than in {}", run.filename().string(), from,
              into);
    if (fs::exists(to / "result.json")) continue;
    copy_run(run, to);
    ++merged.runs;
  }
  for (const auto* kind : {"probes", "norms"})
    for (const auto& measured : entries(fs::path(from) / kind)) {
      const auto to = fs::path(into) / kind / measured.filename();
      if (fs::exists(to)) continue;
      write_file_atomically(to, read_file(measured));
      ++merged.measurements;
    }
  return merged;
}

}  // namespace geores
