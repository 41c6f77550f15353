#include "geores/train/run/made_with.h"

#include <gtest/gtest.h>

namespace geores {
namespace {

TEST(MadeWith, ProcessorsHaveNamesOrNumbers) {
  EXPECT_EQ(processor_in("processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t\t: fpu\n\n"
                         "processor\t: 1\nmodel name\t: AMD EPYC 9654\n"),
            "2 × AMD EPYC 9654");
  EXPECT_EQ(processor_in("processor\t: 0\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n"),
            "2 × Neoverse-N1");
  EXPECT_EQ(processor_in("processor\t: 0\nCPU part\t: 0x123\n"), "1 × ARM 0x123");
  EXPECT_EQ(processor_in(""), "unknown");
}

TEST(MadeWith, SaysMachineAndProgram) {
  const auto made = made_with("cpu");
  EXPECT_NE(made.at("machine"), "");
  EXPECT_EQ(made.at("program").get<std::string>().find("geores 0."), 0u) << made;
  EXPECT_NE(made.at("program").get<std::string>().find(", commit "), std::string::npos) << made;
}

}  // namespace
}  // namespace geores
