// SentencePiece in the program, which has LibTorch and its protobuf loaded, too.
#include <gtest/gtest.h>

#include "geores/base/file.h"
#include "tests/text_program.h"

namespace geores {
namespace {

TEST_F(TextProgram, LearnsSentencePiecesTrainsAndWrites) {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += "The quick brown fox " + std::to_string(i * 7919 % 1000) + " jumps over a lazy dog.\n";
  write("a.txt", text);
  const auto prepared =
      run("data text --input a.txt --tokenizer sentencepiece --vocabulary 320 --out data");
  if (prepared.output.find("needs SentencePiece: install") != std::string::npos)
    GTEST_SKIP() << prepared.output;
  ASSERT_EQ(prepared.exit_code, 0) << prepared.output;
  succeed(std::string("train --task text --data data --out run --steps 3 ") + kModel);
  const auto made = json_of("generate --run run --prompt 'The quick' --tokens 5 --temperature 0");
  EXPECT_EQ(made[0]["ids"].size(), 5u);
  const auto unknown = run("generate --run run --prompt '\xE2\x96\x81' --tokens 5");
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_NE(unknown.output.find("U+2581 at byte offset 0"), std::string::npos) << unknown.output;
}

}  // namespace
}  // namespace geores
