#include "geores/train/communication/group_member.h"

#include <gtest/gtest.h>

#include <map>

#include "geores/testing/testing.h"

namespace geores {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<GroupMember> member_in(const Variables& variables) {
  return group_member([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29500"}};

TEST(GroupMember, IsThatOfTorchrunsVariables) {
  const auto member = member_in(kTorchrun);
  ASSERT_TRUE(member);
  EXPECT_EQ(member->rank, 3);
  EXPECT_EQ(member->size, 8);
  EXPECT_EQ(member->local_rank, 1);
  EXPECT_EQ(member->address, "node0");
  EXPECT_EQ(member->port, 29500);
  EXPECT_FALSE(member->agents_store);
}

TEST(GroupMember, IsThatOfSlurmAndOpenMpiWhereTheAddressIsGiven) {
  const Variables address = {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  auto slurm = address, mpi = address;
  slurm.insert({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}, {"SLURM_LOCALID", "2"}});
  mpi.insert({{"OMPI_COMM_WORLD_RANK", "5"},
              {"OMPI_COMM_WORLD_SIZE", "6"},
              {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}});
  for (const auto& variables : {slurm, mpi}) {
    const auto member = member_in(variables);
    ASSERT_TRUE(member);
    EXPECT_EQ(member->rank, 5);
    EXPECT_EQ(member->size, 6);
    EXPECT_EQ(member->local_rank, 2);
  }
  // A job of Slurm may hold programs that run alone.
  EXPECT_FALSE(member_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "6"}, {"SLURM_LOCALID", "0"}}));
  EXPECT_FALSE(member_in({}));
}

TEST(GroupMember, NamesTheVariableThatIsMissing) {
  for (const auto& [name, value] : kTorchrun) {
    auto some = kTorchrun;
    some.erase(name);
    EXPECT_EQ(refusal([&] { member_in(some); }),
              "[train] " + name +
                  " is not set: several processes need RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR "
                  "and MASTER_PORT");
  }
}

TEST(GroupMember, RefusesWhatIsNoNumber) {
  const auto with = [](const char* name, const char* value) {
    auto variables = kTorchrun;
    variables[name] = value;
    return refusal([&] { member_in(variables); });
  };
  EXPECT_EQ(with("RANK", "8"), "[train] RANK must be a number in 0..7, got '8'");
  EXPECT_EQ(with("RANK", "one"), "[train] RANK must be a number in 0..7, got 'one'");
  EXPECT_EQ(with("MASTER_PORT", "70000"),
            "[train] MASTER_PORT must be a number in 1..65535, got '70000'");
  EXPECT_EQ(with("WORLD_SIZE", "0"), "[train] WORLD_SIZE must be a number in 1..1048576, got '0'");
}

}  // namespace
}  // namespace geores
