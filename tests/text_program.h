// The commands for text, in a folder of their own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "geores/base/file.h"
#include "geores/testing/testing.h"
#include "tests/program.h"

namespace geores {

// A test that waits in vain fails on its next check.
inline void wait_until(const std::function<bool()>& happened) {
  for (int i = 0; i < 30000 && !happened(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class TextProgram : public testing::Test {
 protected:
  Outcome run(const std::string& arguments) const {
    return run_program(arguments, {.folder = temporary_.path()});
  }

  void succeed(const std::string& arguments) const {
    const auto result = run(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  nlohmann::json json_of(const std::string& arguments) const {
    const auto result =
        run_program(arguments + " --json", {.folder = temporary_.path(), .errors = false});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return nlohmann::json::parse(result.output);
  }
  void refuse(const std::string& arguments, const std::string& line) const {
    const auto result = run(arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments;
    EXPECT_EQ(result.output, "geores: " + line + "\n") << arguments;
  }

  void write(const std::string& name, const std::string& text) const {
    write_file_atomically(temporary_.path() / name, text);
  }

  // A small run on data/, the text of a.txt.
  void train_on(const std::string& text, const std::string& tokenizer, int steps = 2) const {
    write("a.txt", text);
    succeed("data text --input a.txt --out data --tokenizer " + tokenizer);
    succeed(fmt::format("train --task text --data data --out run --steps {} {}", steps, kModel));
  }
  static constexpr const char* kModel =
      "--model additive --context 16 --layers 1 --width 16 --heads 2 --batch 4 --eval-batches 2 "
      "--final-eval-batches 2";

  const TemporaryFolder temporary_;
};

}  // namespace geores
