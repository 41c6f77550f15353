#include "geores/train/communication/group_member.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "geores/base/error.h"

namespace geores {
namespace {

// The names under which different launchers export the same number.
using Names = std::array<const char*, 3>;
constexpr Names kRank = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"};
constexpr Names kSize = {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"};
constexpr Names kLocal = {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"};

int64_t number_in(const char* name, std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, value);
  require(problem == std::errc() && stopped == end && value >= least && value <= most, "train",
          "{} must be a number in {}..{}, got {}", name, least, most, quote(text));
  return value;
}

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  bool has(const char* name) const { return environment_(name) != nullptr; }

  std::string text(const char* name) const {
    const auto* value = environment_(name);
    require(value != nullptr && *value != '\0', "train",
            "{} is not set: several processes need {}, {}, {}, MASTER_ADDR and MASTER_PORT", name,
            kRank[0], kSize[0], kLocal[0]);
    return value;
  }

  // Reads the first of the names that is set; errors name the first of all.
  int64_t number(const Names& names, int64_t least, int64_t most) const {
    for (const auto* name : names)
      if (has(name)) return number_in(name, text(name), least, most);
    return number_in(names[0], text(names[0]), least, most);
  }

 private:
  const Environment& environment_;
};

constexpr int64_t kMost = 1 << 20;

}  // namespace

std::optional<GroupMember> group_member(const Environment& environment) {
  const Reader read(environment);
  GroupMember member;
  if (read.has(kLocalFolder)) {
    member.folder = read.text(kLocalFolder);
    member.size = number_in(kLocalSize, read.text(kLocalSize), 1, kMost);
    member.rank = number_in(kLocalRank, read.text(kLocalRank), 0, member.size - 1);
    member.local_rank = member.rank;
    return member;
  }
  // A job of Slurm or Open MPI may contain independent programs; MASTER_ADDR distinguishes the
  // cases.
  bool any = read.has("MASTER_ADDR") || read.has("MASTER_PORT");
  for (const auto& names : {kRank, kSize, kLocal}) any = any || read.has(names[0]);
  if (!any) return std::nullopt;
  member.size = read.number(kSize, 1, kMost);
  member.rank = read.number(kRank, 0, member.size - 1);
  member.local_rank = read.number(kLocal, 0, kMost);
  member.address = read.text("MASTER_ADDR");
  member.port = static_cast<uint16_t>(number_in("MASTER_PORT", read.text("MASTER_PORT"), 1, 65535));
  member.agents_store = read.has("TORCHELASTIC_USE_AGENT_STORE") &&
                        read.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (read.has("TORCHELASTIC_RESTART_COUNT"))
    member.attempt = read.text("TORCHELASTIC_RESTART_COUNT");
  return member;
}

std::optional<GroupMember> group_member() {
  return group_member([](const char* name) { return static_cast<const char*>(std::getenv(name)); });
}

}  // namespace geores
