// `geores explore`: runs in the explorer's page. The page here is a small one with the same block for
// runs; the real page reads them in its browser tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "geores/base/file.h"
#include "geores/testing/testing.h"
#include "tests/program.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBefore = "<p>1 < 2</p><script type=\"application/json\" id=\"runs\">";
constexpr const char* kAfter = "</script><p>end</p>\n";

class Explore : public testing::Test {
 protected:
  Explore() { write_file_atomically(path("page.html"), std::string(kBefore) + "[]" + kAfter); }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  // A run of a few steps.
  std::string trained(const std::string& name, const std::string& task,
                      const std::string& connection) {
    const auto result =
        run_program("train --task " + task + " --model " + connection +
                    " --layers 1 --width 16 --steps 3 --batch 2 --warmup 1 --eval-interval 2"
                    " --eval-batches 1 --final-eval-batches 1 --cache " +
                    path("cache") + " --out '" + path(name) + "'");
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return path(name);
  }

  Outcome explore(const std::string& runs) {
    return run_program("explore " + runs + " --page " + path("page.html") + " --cache " +
                       path("cache") + " --out " + path("out.html"));
  }

  // The runs that explore() has put into the page; everything around it must be as it was.
  nlohmann::json runs_of_page() const {
    const auto page = read_text_file(path("out.html"));
    EXPECT_TRUE(page.starts_with(kBefore));
    EXPECT_TRUE(page.ends_with(kAfter));
    const auto begin = std::string(kBefore).size();
    const auto text = page.substr(begin, page.size() - begin - std::string(kAfter).size());
    EXPECT_EQ(text.find('<'), text.npos) << "nothing in it may end the script element";
    return nlohmann::json::parse(text);
  }

  TemporaryFolder folder_;
};

const std::string kVectors = "gyroscope --length 9 --train-sequences 20 --validation-sequences 10";
const std::string kTokens = "copy";

TEST_F(Explore, PutsRunsIntoThePage) {
  const auto one = trained("one", kVectors, "edelta"),
             two = trained("two<b>", kVectors, "additive");
  const auto result = explore("--run " + one + " --run '" + two + "'");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto runs = runs_of_page();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["name"], one);
  EXPECT_EQ(runs[1]["name"], two);
  for (const auto& entry : runs) {
    const auto folder = fs::path(entry["name"].get<std::string>());
    for (const char* name : {"config.json", "metrics.jsonl", "result.json"})
      EXPECT_EQ(entry["files"][name], read_text_file(folder / name)) << name;
    EXPECT_TRUE(nlohmann::json::parse(entry["files"]["inspection.json"].get<std::string>())
                    .contains("operators"));
    EXPECT_EQ(entry["weights"].get<std::string>().size(),
              (fs::file_size(folder / "best.safetensors") + 2) / 3 * 4);
  }
}

TEST_F(Explore, WithoutRunsThePageIsAsItWas) {
  ASSERT_EQ(explore("").exit_code, 0);
  EXPECT_EQ(read_text_file(path("out.html")), read_text_file(path("page.html")));
}

TEST_F(Explore, ATokenModelComesWithoutItsWeights) {
  const auto result = explore("--run " + trained("tokens", kTokens, "additive"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto runs = runs_of_page();
  EXPECT_FALSE(runs[0].contains("weights"));
  EXPECT_TRUE(runs[0]["files"].contains("metrics.jsonl"));
}

TEST_F(Explore, ADamagedRunIsRefusedInOneLineAndNothingIsWritten) {
  const auto one = trained("one", kVectors, "additive");
  const auto expect_refused = [&](const std::string& words) {
    const auto result = explore("--run " + one);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.output.find(words), std::string::npos) << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    EXPECT_FALSE(fs::exists(path("out.html")));
  };
  const auto metrics = read_text_file(fs::path(one) / "metrics.jsonl");
  write_file_atomically(fs::path(one) / "metrics.jsonl", "{\"step\": 1\n" + metrics);
  expect_refused("metrics.jsonl line 1");
  write_file_atomically(fs::path(one) / "metrics.jsonl", metrics);

  const auto best = read_file(fs::path(one) / "best.safetensors");
  write_file_atomically(fs::path(one) / "best.safetensors", std::span(best).first(best.size() / 2));
  expect_refused("best.safetensors");
  write_file_atomically(fs::path(one) / "best.safetensors", best);

  fs::remove(fs::path(one) / "config.json");
  expect_refused("config.json");
}

TEST_F(Explore, APageWithoutABlockForRunsIsRefused) {
  write_file_atomically(path("page.html"), "<p>another page</p>");
  const auto result = explore("");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("it is not the explorer's page"), std::string::npos);
}

TEST_F(Explore, AFolderThatIsNotThereIsRefused) {
  const auto result = explore("--run " + path("nowhere"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("is not the folder of a run"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace geores
