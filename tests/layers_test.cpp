// The layer table of docs/architecture.md, enforced: which folder may include which. It reads the
// sources, because Debian's torch lies in /usr/include where any file could include it unlinked.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

namespace geores {
namespace {

namespace fs = std::filesystem;

struct Layer {
  std::vector<std::string> geores;     // prefixes of "geores/..." includes besides its own folder
  std::vector<std::string> libraries;  // prefixes of <...> includes besides the standard library
};

const std::map<std::string, Layer> kLayers = {
    {"geores/base", {{}, {"nlohmann/", "fmt/"}}},
    {"geores/manifold", {{}, {}}},
    {"geores/kernels", {{"geores/manifold/"}, {}}},
    {"geores/ops",
     {{"geores/base/", "geores/manifold/", "geores/kernels/"}, {"torch/", "fmt/", "ATen/"}}},
    {"geores/spectral",
     {{"geores/base/refusal.h", "geores/base/testing.h", "geores/manifold/"}, {"Eigen/"}}},
    {"geores/portable", {{"geores/base/refusal.h", "geores/manifold/"}, {}}},
    {"geores/spectrum", {{"geores/base/", "geores/spectral/"}, {"Eigen/", "nlohmann/", "fmt/"}}},
    {"geores/residual",
     {{"geores/base/", "geores/manifold/", "geores/ops/"}, {"torch/", "nlohmann/", "fmt/"}}},
    {"geores/data", {{"geores/base/", "geores/ops/"}, {"torch/", "nlohmann/", "fmt/"}}},
    {"geores/diagnostics",
     {{"geores/base/", "geores/model/", "geores/residual/residual.h", "geores/residual/registry.h",
       "geores/ops/", "geores/spectrum/"},
      {"torch/", "nlohmann/", "fmt/"}}},
    {"geores/model",
     {{"geores/base/", "geores/residual/residual.h", "geores/residual/registry.h", "geores/ops/"},
      {"torch/", "nlohmann/"}}},
    {"geores/train",
     {{"geores/base/", "geores/model/", "geores/data/", "geores/ops/"},
      {"torch/", "nlohmann/", "ATen/", "c10/", "fmt/"}}},
    {"geores/reference",
     {{"geores/base/", "geores/model/", "geores/train/", "geores/ops/"},
      {"torch/", "nlohmann/", "fmt/"}}},
    {"geores/experiments",
     {{"geores/base/", "geores/model/", "geores/train/", "geores/data/", "geores/ops/"},
      {"torch/", "nlohmann/", "ATen/", "fmt/"}}},
    {"cli", {{"geores/", "cli/"}, {"CLI/", "fmt/", "nlohmann/"}}},
    {"tests", {{"geores/", "tests/"}, {"torch/", "fmt/", "nlohmann/"}}},
};

bool starts_with_any(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const auto& prefix) { return text.starts_with(prefix); });
}

// Standard headers have neither a slash nor an extension. gtest is for tests alone, and manifold/
// must compile where there is no standard library.
bool is_standard(const std::string& header) {
  return header.find('/') == std::string::npos && header.find('.') == std::string::npos;
}

std::string folder_of(const std::string& file) {
  for (const auto& [folder, layer] : kLayers)
    if (file.starts_with(folder + "/")) return folder;
  return "";
}

bool is_test_source(const std::string& file) {
  const auto name = fs::path(file).stem().string();
  return name.ends_with("_test") || name == "testing" || file.starts_with("tests/");
}

// One line per include of `file` (relative path, text) that its folder's row does not allow.
std::vector<std::string> violations(const std::string& file, const std::string& text) {
  const auto folder = folder_of(file);
  if (folder.empty()) return {file + " lies in no folder of the layer table"};
  const auto& layer = kLayers.at(folder);
  // Within residual/, a connection may include its own folder and what lies beside the folders.
  std::string connection;
  if (folder == "geores/residual") {
    const auto inside = file.substr(folder.size() + 1);
    if (const auto slash = inside.find('/'); slash != std::string::npos)
      connection = folder + "/" + inside.substr(0, slash + 1);
  }

  std::vector<std::string> found;
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, pattern)) continue;
    const auto header = match[2].str();
    bool allowed = false;
    if (match[1] == "\"") {
      allowed = header.starts_with(folder + "/") || starts_with_any(header, layer.geores);
      const auto sibling = header.starts_with("geores/residual/") &&
                           std::count(header.begin(), header.end(), '/') > 2;
      if (!connection.empty() && sibling) allowed = header.starts_with(connection);
    } else {
      const auto test_library = is_test_source(file) && header.starts_with("gtest/");
      const auto posix = is_standard(header) || header.ends_with(".h");
      allowed = starts_with_any(header, layer.libraries) || test_library ||
                (folder != "geores/manifold" && is_standard(header)) ||
                (folder == "geores/manifold" && is_test_source(file) && is_standard(header)) ||
                (posix && header.find('/') == std::string::npos && folder != "geores/manifold") ||
                header.starts_with("sys/");
    }
    if (!allowed) found.push_back(file + " includes " + header);
  }
  return found;
}

TEST(Layers, EveryIncludeIsAllowedByTheTable) {
  const fs::path root = GEORES_SOURCE_DIR;
  int files = 0;
  for (const auto* top : {"geores", "cli", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh" &&
          extension != ".inc")
        continue;
      ++files;
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      const auto file = fs::relative(entry.path(), root).generic_string();
      for (const auto& violation : violations(file, text.str())) ADD_FAILURE() << violation;
    }
  EXPECT_GT(files, 60);
}

TEST(Layers, TheCheckSeesAViolation) {
  const auto refused = [](const std::string& file, const std::string& include) {
    return violations(file, "#include " + include + "\n").size() == 1;
  };
  EXPECT_TRUE(refused("geores/base/config.h", "<torch/torch.h>"));
  EXPECT_TRUE(refused("geores/base/config.h", "\"geores/ops/cayley.h\""));
  EXPECT_TRUE(refused("geores/manifold/cayley.h", "<vector>"));
  EXPECT_TRUE(refused("geores/manifold/cayley.h", "\"geores/base/error.h\""));
  EXPECT_TRUE(refused("geores/spectral/chain.h", "<torch/torch.h>"));
  EXPECT_TRUE(refused("geores/residual/hc/hc.h", "\"geores/residual/mhc/mhc.h\""));
  EXPECT_TRUE(refused("geores/residual/hc/hc.h", "\"geores/model/block.h\""));
  EXPECT_TRUE(refused("geores/model/block.h", "\"geores/residual/hc/hc.h\""));
  EXPECT_TRUE(refused("geores/train/adamw.h", "\"cli/commands.h\""));
  EXPECT_TRUE(refused("geores/ops/cayley.cpp", "<gtest/gtest.h>"));
  EXPECT_TRUE(refused("elsewhere/file.h", "<vector>"));

  EXPECT_FALSE(refused("geores/residual/hc/hc.h", "\"geores/residual/hyper_connection.h\""));
  EXPECT_FALSE(refused("geores/residual/jpmhc/jpmhc.h", "\"geores/residual/jpmhc/mixer.h\""));
  EXPECT_FALSE(refused("geores/residual/registry.cpp", "\"geores/residual/hc/hc.h\""));
  EXPECT_FALSE(refused("geores/base/config.h", "<vector>"));
}

}  // namespace
}  // namespace geores
