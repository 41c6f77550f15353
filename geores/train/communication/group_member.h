// The rank of a process in its group, read from the variables of its launcher: torchrun's (RANK,
// WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT); those of Slurm or Open MPI with the same
// MASTER_ADDR and MASTER_PORT; or those of a process that --processes started on this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace geores {

struct GroupMember {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0;     // rank among the processes of this machine: the index of its GPU
  std::string address = {};   // of rank 0
  uint16_t port = 0;          //
  std::string folder = {};    // of --processes instead of address and port
  bool agents_store = false;  // torchrun itself listens on the port
  std::string attempt = {};   // torchrun: how often it has started the group anew
};

// A variable's value, null if it is not set.
using Environment = std::function<const char*(const char* name)>;

// nullopt if no such variable is set. A missing or malformed variable is an error of one line.
std::optional<GroupMember> group_member(const Environment& environment);
std::optional<GroupMember> group_member();  // of this process

// The variables that --processes sets for the processes it starts.
inline constexpr const char* kLocalFolder = "GEORES_GROUP_FOLDER";
inline constexpr const char* kLocalRank = "GEORES_GROUP_RANK";
inline constexpr const char* kLocalSize = "GEORES_GROUP_SIZE";

}  // namespace geores
