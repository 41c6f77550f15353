#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <nlohmann/json.hpp>

#include "geores/base/file.h"
#include "geores/testing/testing.h"
#include "tests/program.h"

namespace geores {
namespace {

TEST(BenchCommand, ComparesBfloat16WithBothFloat32Forms) {
  const std::string bench =
      "bench --models additive --layers 1 --batch 2 --length 8 --repeats 1 --precision ";
  auto text = run_program(bench + "bf16 --json").output;
  const auto json = nlohmann::json::parse(text.substr(text.find('{')), nullptr, false);
  ASSERT_TRUE(json.is_object()) << text;
  EXPECT_EQ(json.at("precision"), "bf16");
  EXPECT_TRUE(json.contains("bf16_products"));
  for (const auto* key : {"fused_seconds", "stock_seconds", "bf16_seconds"})
    EXPECT_GT(json.at("steps").at(0).at(key).get<double>(), 0) << key;
  text = run_program(bench + "fp32 --json").output;
  EXPECT_EQ(text.find("bf16_seconds"), std::string::npos) << "only where it is asked for";
  const auto alone = run_program(bench + "fp32 --side-by-side 2");
  EXPECT_NE(alone.exit_code, 0);
  EXPECT_NE(alone.output.find("needs --device cuda"), std::string::npos) << alone.output;
  const auto refused = run_program(bench + "tf32");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.output.find("needs device cuda"), std::string::npos) << refused.output;
}

TEST(BenchCommand, ExplainsARecursiveModel) {
  const std::string bench =
      "bench --puzzles --explain --batch 2 --length 6 --width 16 --heads 2 --layers 1 --models ";
  const auto explained = run_program(bench + "none cayley");
  EXPECT_EQ(explained.exit_code, 0) << explained.output;
  for (const auto* part : {"none: one training step", "cayley: one training step", "post_norm"})
    EXPECT_NE(explained.output.find(part), std::string::npos) << explained.output;
  const auto refused = run_program(bench + "wrong");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.output.find("wrong"), std::string::npos) << refused.output;
}

TEST(BenchCommand, TakesOptionsOfAConnectionAndKeepsTheOrderOfModels) {
  const std::string bench =
      "bench --text --layers 1 --width 16 --heads 2 --length 8 --batch 2 --vocabulary 32 "
      "--repeats 1 --json --models ";
  const auto text = run_program(bench + "hc hc:dynamic=false additive:norm=post").output;
  const auto json = nlohmann::json::parse(text.substr(text.find('{')), nullptr, false);
  ASSERT_TRUE(json.is_object()) << text;
  const auto& rows = json.at("steps");
  ASSERT_EQ(rows.size(), 3);
  EXPECT_EQ(rows[0].at("model"), "hc");
  EXPECT_EQ(rows[1].at("model"), "hc:dynamic=false");
  EXPECT_EQ(rows[2].at("model"), "additive:norm=post");
  EXPECT_GT(rows[0].at("parameters"), rows[1].at("parameters")) << "routes of each token";

  const auto alone = run_program(
      "bench --connection-alone --width 16 --length 8 --batch 2 --repeats 1 --json "
      "--models hc:dynamic=false hc");
  const auto connections =
      nlohmann::json::parse(alone.output.substr(alone.output.find('{')), nullptr, false)
          .at("connections");
  EXPECT_EQ(connections.at(0).at("model"), "hc:dynamic=false");
  EXPECT_EQ(connections.at(1).at("model"), "hc");

  for (const auto& [models, part] :
       {std::pair{"hc:dynamic=false --scaling", "--scaling takes connections without options"},
        {"hc:form=sigmoid,dynamic", "'dynamic' in --models must be KEY=VALUE"},
        {"hc:dinamic=false", "unknown option 'dinamic', did you mean 'dynamic'?"},
        {"additive:norm=both", "norm"},
        {"hd:dynamic=false", "unknown"}}) {
    const auto refused = run_program(bench + models);
    EXPECT_NE(refused.exit_code, 0) << models;
    EXPECT_NE(refused.output.find(part), std::string::npos) << refused.output;
  }
}

// Bash's proposals at the cursor.
TEST(Completion, BashKnowsCommandsAndTheirOptions) {
  const TemporaryFolder folder;
  const auto script = run_program("completion bash");
  ASSERT_EQ(script.exit_code, 0) << script.output;
  write_file_atomically(folder.path() / "script", script.output);
  const auto offered = [&](const std::string& words) {
    const auto command = fmt::format(
        "bash -c 'set -eu; source {0}/script; COMP_WORDS=({1}); COMP_CWORD=$((${{#COMP_WORDS[@]}} "
        "- "
        "1)); _geores; echo \"${{COMPREPLY[*]}}\"' > {0}/out 2>&1",
        folder.path().string(), words);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return read_text_file(folder.path() / "out");
  };
  EXPECT_EQ(offered("geores tr"), "train\n");
  EXPECT_EQ(offered("geores --vers"), "--version\n");
  EXPECT_EQ(offered("geores data ma"), "maze\n");
  EXPECT_EQ(offered("geores data maze --dih"), "--dihedral\n");
  EXPECT_EQ(offered("geores train --task text --sinkhorn-it"), "--sinkhorn-iterations\n");
  EXPECT_EQ(offered("geores train --data d"), "\n") << "files";
  EXPECT_NE(run_program("completion zsh").output.find("\"geores data maze\" \"--help"),
            std::string::npos);
  EXPECT_EQ(run_program("completion fish").exit_code, 2);
}

}  // namespace
}  // namespace geores
