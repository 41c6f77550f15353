// The layer table of docs/extend/architecture.md, enforced: which folder may include which. It reads the
// sources, because Debian's torch is in /usr/include where any file could include it unlinked.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace geores {
namespace {

namespace fs = std::filesystem;

// A library as the table calls it, and how its headers begin.
const std::map<std::string, std::vector<std::string>> kLibraries = {
    {"nlohmann-json", {"nlohmann/"}},
    {"fmt", {"fmt/"}},
    {"Eigen", {"Eigen/"}},
    {"CLI11", {"CLI/"}},
    {"gtest", {"gtest/"}},
    {"torch", {"torch/", "ATen/", "c10/"}},
    {"PCRE2", {"pcre2"}},
    {"SentencePiece", {"sentencepiece_"}},
    {"CBLAS", {"cblas.h"}},
    {"OpenMP", {"omp.h"}},
    {"CUDA", {"cuda_", "cuda.h", "cublas", "ATen/cuda/", "c10/cuda/"}},
};

// The C++ library and the C library below it.
bool is_standard(const std::string& header) {
  const bool plain = header.find('/') == std::string::npos;
  const bool c_header = header.ends_with(".h") && header.find('/') == std::string::npos;
  return (plain && header.find('.') == std::string::npos) || c_header ||
         header.starts_with("sys/") || header.starts_with("asm/");
}

std::string library_of(const std::string& header) {
  // The longest beginning wins: ATen/cuda/ is CUDA's, ATen/ is torch's.
  std::string best, name = is_standard(header) ? "std" : "";
  for (const auto& [library, beginnings] : kLibraries)
    for (const auto& beginning : beginnings)
      if (header.starts_with(beginning) && beginning.size() > best.size())
        best = beginning, name = library;
  return name;
}

struct Row {
  std::string folder;                             // "geores/base/"
  std::set<std::string> folders, files, allowed;  // "geores/base/", "geores/a/b.h", libraries
};

using Rows = std::vector<Row>;

// A word of the third column: a folder of geores or "lab/NAME", a file in backticks, or a library.
void add_word(Row& row, std::string word) {
  word = std::regex_replace(word, std::regex("^\\s+|\\s+$"), "");
  if (word.empty()) return;
  if (word.front() == '`')
    row.files.insert(word.substr(1, word.size() - 2));
  else if (word == "std" || kLibraries.count(word) > 0)
    row.allowed.insert(word);
  else
    row.folders.insert((word.starts_with("lab/") ? "" : "geores/") + word + "/");
}

Rows read_table(const std::string& text) {
  Rows rows;
  std::istringstream lines(text);
  static const std::regex pattern(R"(^\| `([a-z/_]+/)` \|[^|]*\|([^|]*)\|\s*$)");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, pattern)) continue;
    Row row{.folder = match[1], .folders = {}, .files = {}, .allowed = {}};
    std::istringstream words(match[2].str());
    for (std::string word; std::getline(words, word, ',');) add_word(row, word);
    rows.push_back(row);
  }
  return rows;
}

const Row* row_of(const Rows& rows, const std::string& file) {
  for (const auto& row : rows)
    if (file.starts_with(row.folder)) return &row;
  return nullptr;
}

bool is_test_source(const std::string& file) {
  const auto name = fs::path(file).stem().string();
  return name.ends_with("_test") || name == "testing" || file.starts_with("tests/");
}

struct Include {
  std::string header;
  bool ours;
};

// By hand: a regular expression over every line of every file would take most of this test's time.
std::vector<Include> includes_of(const std::string& text) {
  std::vector<Include> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto hash = line.find_first_not_of(" \t");
    if (hash == line.npos || line[hash] != '#') continue;
    const auto word = line.find_first_not_of(" \t", hash + 1);
    if (word == line.npos || line.compare(word, 7, "include") != 0) continue;
    const auto begin = line.find_first_of("<\"", word);
    const auto end = line.find_first_of(">\"", begin == line.npos ? begin : begin + 1);
    if (end != line.npos)
      all.push_back({line.substr(begin + 1, end - begin - 1), line[begin] == '"'});
  }
  return all;
}

// "geores/residual/hc/" for a file of the connection hc, empty for others.
std::string connection_of(const std::string& file) {
  static const std::string residual = "geores/residual/";
  if (!file.starts_with(residual)) return "";
  const auto slash = file.find('/', residual.size());
  return slash == std::string::npos ? "" : file.substr(0, slash + 1);
}

bool allows(const Row& row, const std::string& file, const Include& include) {
  const auto& header = include.header;
  const bool test = is_test_source(file);
  if (!include.ours) {
    const auto library = library_of(header);
    if (test && (library == "gtest" || library == "std")) return true;
    return row.allowed.count(library) > 0;
  }
  if (test && (header.starts_with("geores/testing/") || header.starts_with("geores/storage/")))
    return true;
  const auto mine = connection_of(file), theirs = connection_of(header);
  if (!mine.empty() && !theirs.empty() && mine != theirs) return false;
  return header.starts_with(row.folder) || row.files.count(header) > 0 ||
         std::any_of(row.folders.begin(), row.folders.end(),
                     [&](const auto& folder) { return header.starts_with(folder); });
}

// One line for each include of `file` that its row does not allow.
std::vector<std::string> violations(const Rows& rows, const std::string& file,
                                    const std::string& text) {
  const auto* row = row_of(rows, file);
  if (row == nullptr) return {file + " is in no folder of the layer table"};
  std::vector<std::string> found;
  for (const auto& include : includes_of(text))
    if (!allows(*row, file, include)) found.push_back(file + " includes " + include.header);
  return found;
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Rows table() {
  return read_table(read(fs::path(GEORES_SOURCE_DIR) / "docs/extend/architecture.md"));
}

std::map<std::string, std::string> all_sources() {
  const fs::path root = GEORES_SOURCE_DIR;
  std::map<std::string, std::string> sources;
  for (const auto* top : {"geores", "lab", "cli", "web/wasm", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const auto extension = entry.path().extension();
      if (extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".cuh" ||
          extension == ".inc")
        sources[fs::relative(entry.path(), root).generic_string()] = read(entry.path());
    }
  return sources;
}

TEST(Layers, ARowNamesOnlyRowsAboveIt) {
  std::set<std::string> above;
  for (const auto& row : table()) {
    for (const auto& folder : row.folders)
      EXPECT_EQ(above.count(folder), 1u) << row.folder << " names " << folder;
    for (const auto& file : row.files)
      EXPECT_TRUE(fs::exists(fs::path(GEORES_SOURCE_DIR) / file)) << file;
    above.insert(row.folder);
  }
  EXPECT_GE(above.size(), 15u) << "the table of docs/extend/architecture.md was not read";
}

// The installed library does not have it.
TEST(Layers, TheLibraryKnowsNothingOfTheLab) {
  int folders = 0;
  for (const auto& row : table()) {
    folders += row.folder.starts_with("lab/") ? 1 : 0;
    if (!row.folder.starts_with("geores/")) continue;
    for (const auto* names : {&row.folders, &row.files})
      for (const auto& name : *names)
        EXPECT_FALSE(name.starts_with("lab/")) << row.folder << " names " << name;
  }
  EXPECT_GE(folders, 5);
}

TEST(Layers, EveryIncludeIsAllowedByTheTable) {
  const auto rows = table();
  const auto sources = all_sources();
  EXPECT_GT(sources.size(), 200u);
  for (const auto& [file, text] : sources)
    for (const auto& violation : violations(rows, file, text)) ADD_FAILURE() << violation;
}

// All headers that a file includes, directly or indirectly.
void follow(const std::map<std::string, std::string>& sources, const std::string& file,
            std::set<std::string>& files, std::set<std::string>& headers) {
  if (!files.insert(file).second) return;
  const auto text = sources.find(file);
  if (text == sources.end()) return;
  for (const auto& include : includes_of(text->second))
    if (include.ours)
      follow(sources, include.header, files, headers);
    else
      headers.insert(include.header);
}

// All folders that a row's folders may reach, directly or indirectly.
void close(const Rows& rows, const Row& row, std::set<std::string>& folders,
           std::set<std::string>& libraries) {
  if (!folders.insert(row.folder).second) return;
  libraries.insert(row.allowed.begin(), row.allowed.end());
  for (const auto& other : rows)
    if (row.folders.count(other.folder) > 0 ||
        std::any_of(row.files.begin(), row.files.end(),
                    [&](const auto& file) { return file.starts_with(other.folder); }))
      close(rows, other, folders, libraries);
}

TEST(Layers, NothingIsReachedThroughOtherHeaders) {
  const auto rows = table();
  const auto sources = all_sources();
  for (const auto& [file, text] : sources) {
    if (is_test_source(file)) continue;
    std::set<std::string> files, headers, folders_allowed, libraries_allowed;
    follow(sources, file, files, headers);
    close(rows, *row_of(rows, file), folders_allowed, libraries_allowed);
    for (const auto& reached : files) {
      EXPECT_EQ(sources.count(reached), 1u)
          << file << " reaches " << reached << ", which is not there";
      const auto* row = row_of(rows, reached);
      ASSERT_NE(row, nullptr) << reached;
      EXPECT_EQ(folders_allowed.count(row->folder), 1u) << file << " reaches " << reached;
    }
    for (const auto& header : headers)
      EXPECT_EQ(libraries_allowed.count(library_of(header)), 1u) << file << " reaches " << header;
  }
}

// Headers that a unity build adds to a file, by the precompiled header or by the files that are
// compiled with it, and words that need it. A file must compile without both too (preset dev, a build for
// a GPU, or another one).
const std::map<std::string, std::vector<std::string>> kGiven = {
    {"geores/base/error.h", {" require("}},
    {"fmt/format.h", {"fmt::"}},
    {"nlohmann/json.hpp", {"nlohmann::"}},
    {"algorithm",
     {"std::sort(", "std::stable_sort(", "std::any_of(", "std::all_of(", "std::none_of(",
      "std::count_if(", "std::find_if(", "std::max_element(", "std::min_element(", "std::copy(",
      "std::fill(", "std::clamp(", "std::transform(", "std::lower_bound(", "std::upper_bound("}},
    {"filesystem", {"std::filesystem"}},
    {"functional", {"std::function<"}},
    {"map", {"std::map<"}},
    {"memory", {"std::unique_ptr<", "std::shared_ptr<", "std::make_unique<", "std::make_shared<"}},
    {"random", {"std::mt19937", "std::uniform_", "std::normal_distribution"}},
    {"set", {"std::set<"}},
    {"span", {"std::span<"}},
    {"sstream", {"std::istringstream", "std::ostringstream", "std::stringstream"}},
    {"string", {"std::string ", "std::string&", "std::string(", "std::to_string("}},
    {"vector", {"std::vector<"}},
};

// The C++ library's headers above are all in torch's own.
bool comes_with_torch(const std::string& header) { return header.find('/') == header.npos; }

// One line for each header of kGiven that `file` needs and does not reach.
std::vector<std::string> missing_headers(const std::map<std::string, std::string>& sources,
                                         const std::string& file) {
  std::set<std::string> files, headers;
  follow(sources, file, files, headers);
  const bool torch = std::any_of(headers.begin(), headers.end(),
                                 [](const auto& header) { return library_of(header) == "torch"; });
  std::vector<std::string> found;
  for (const auto& [header, words] : kGiven) {
    if (headers.count(header) > 0 || files.count(header) > 0 || (torch && comes_with_torch(header)))
      continue;
    const bool other_part =  // fmt/ranges.h has fmt/format.h
        header.find('/') != header.npos &&
        std::any_of(headers.begin(), headers.end(), [&, name = header](const auto& other) {
          return other.starts_with(name.substr(0, name.find('/') + 1));
        });
    if (other_part) continue;
    std::istringstream lines(sources.at(file));
    for (std::string line; std::getline(lines, line);) {
      line = line.substr(0, line.find("//"));
      const auto word = std::find_if(words.begin(), words.end(),
                                     [&](const auto& one) { return line.find(one) != line.npos; });
      if (word == words.end()) continue;
      found.push_back(file + " says " + *word + " and does not include <" + header + ">");
      break;
    }
  }
  return found;
}

TEST(Layers, AFileIncludesTheHeadersOfItsUnityBuild) {
  const auto sources = all_sources();
  for (const auto& [file, text] : sources)
    if (file.ends_with(".cpp") && file != "tests/layers_test.cpp")  // it has the words themselves
      for (const auto& line : missing_headers(sources, file)) ADD_FAILURE() << line;

  const auto missing = [](const std::string& text) {
    return missing_headers({{"a.cpp", text}, {"a.h", "#include <map>\n"}}, "a.cpp").size();
  };
  EXPECT_EQ(missing("std::map<int, int> m;"), 1u);
  EXPECT_EQ(missing("// std::map<int, int> m;"), 0u);
  EXPECT_EQ(missing("#include \"a.h\"\nstd::map<int, int> m;"), 0u);
  EXPECT_EQ(missing("#include <torch/types.h>\nstd::map<int, int> m;"), 0u);
  EXPECT_EQ(missing("#include <torch/types.h>\nauto text = fmt::format(a);"), 1u);
  EXPECT_EQ(missing("void f() { require(false, a); }"), 1u);
  EXPECT_EQ(missing("#include \"geores/base/error.h\"\nvoid f() { require(false, a); }"), 0u);
}

TEST(Layers, TheCheckSeesAViolation) {
  const auto rows = table();
  const auto refused = [&](const std::string& file, const std::string& include) {
    return violations(rows, file, "#include " + include + "\n").size() == 1;
  };
  EXPECT_TRUE(refused("geores/base/config.h", "<torch/torch.h>"));
  EXPECT_TRUE(refused("geores/base/config.h", "\"geores/ops/mixers/cayley.h\""));
  EXPECT_TRUE(refused("geores/manifold/cayley.h", "<vector>"));
  EXPECT_TRUE(refused("geores/manifold/cayley.h", "\"geores/base/error.h\""));
  EXPECT_TRUE(refused("geores/spectral/chain.h", "<torch/torch.h>"));
  EXPECT_TRUE(refused("geores/spectral/chain.h", "\"geores/base/error.h\""));
  EXPECT_TRUE(refused("geores/residual/hc/hc.h", "\"geores/residual/mhc/mhc.h\""));
  EXPECT_TRUE(refused("geores/residual/hc/hc.h", "\"geores/model/block.h\""));
  EXPECT_TRUE(refused("geores/model/block.h", "\"geores/residual/hc/hc.h\""));
  EXPECT_TRUE(refused("geores/ops/run/kernel_choice.h", "\"geores/modules/layers.h\""));
  EXPECT_TRUE(refused("geores/train/optimizer/adamw.h", "\"cli/commands.h\""));
  EXPECT_TRUE(refused("geores/ops/mixers/cayley.cpp", "<gtest/gtest.h>"));
  EXPECT_TRUE(refused("geores/ops/mixers/cayley.cpp", "<CLI/CLI.hpp>"));
  EXPECT_TRUE(refused("elsewhere/file.h", "<vector>"));

  EXPECT_FALSE(refused("geores/residual/hc/hc.h", "\"geores/residual/hyper_connection.h\""));
  EXPECT_FALSE(refused("geores/residual/jpmhc/jpmhc.h", "\"geores/residual/jpmhc/mixer.h\""));
  EXPECT_FALSE(refused("geores/residual/registry.cpp", "\"geores/residual/hc/hc.h\""));
  EXPECT_FALSE(refused("geores/base/config.h", "<vector>"));
  EXPECT_FALSE(refused("geores/ops/mixers/cayley_test.cpp", "<gtest/gtest.h>"));
}

// A connection is a description, and operations choose their kernels: no connection and no module asks
// for a device or a type of state, and the forms of a routed connection are private to their folder.
std::vector<std::string> form_decisions(const std::string& file, const std::string& text) {
  static const std::string forms = "geores/ops/routed/forms/";
  std::vector<std::string> found;
  if (!file.starts_with("geores/ops/routed/"))
    for (const auto& include : includes_of(text))
      if (include.header.starts_with(forms)) found.push_back(file + " includes " + include.header);
  const bool describes = !connection_of(file).empty() || file.starts_with("geores/modules/") ||
                         file.starts_with("geores/residual/routed_connection.") ||
                         file.starts_with("geores/residual/hyper_connection.");
  if (describes && !is_test_source(file))
    for (const auto* word :
         {"is_cuda", "is_cpu", "on_gpu(", "kBFloat16", "runs_cuda_kernel", "runs_half"})
      if (text.find(word) != text.npos) found.push_back(file + " says " + word);
  return found;
}

TEST(Layers, ConnectionsLeaveTheChoiceOfFormsToOperations) {
  for (const auto& [file, text] : all_sources())
    for (const auto& decision : form_decisions(file, text)) ADD_FAILURE() << decision;
  const auto decides = [](const std::string& file, const std::string& text) {
    return form_decisions(file, text).size() == 1;
  };
  const std::string form = "#include \"geores/ops/routed/forms/wide_form.h\"\n";
  EXPECT_TRUE(decides("geores/residual/hc/hc.cpp", "if (x.is_cuda()) return;"));
  EXPECT_TRUE(decides("geores/residual/hc/hc.cpp", "if (on_gpu(x)) return;"));
  EXPECT_TRUE(decides("geores/modules/layers.cpp", "if (runs_half_state_kernel(x)) return;"));
  EXPECT_TRUE(decides("geores/residual/routed_connection.cpp", form));
  EXPECT_TRUE(decides("geores/model/model.cpp", form));
  EXPECT_FALSE(decides("geores/ops/routed/routed.cpp", form));
  EXPECT_FALSE(decides("geores/ops/streams/streams.cpp", "if (x.is_cuda()) return;"));
}

// It crashes with LibTorch's wheels (geores/base/files/remove_folder.h).
TEST(Layers, NoFileCallsRemoveAll) {
  const std::string call = std::string("remove_all") + "(";
  for (const auto& [file, text] : all_sources())
    EXPECT_EQ(text.find(call), text.npos) << file << " calls " << call;
}

// One training loop: a second one would have checkpoints of its own.
TEST(Layers, OnlyTheTrainingLoopSavesCheckpoints) {
  const std::string call = "save_checkpoint(";
  for (const auto& [file, text] : all_sources()) {
    if (is_test_source(file) || file == "geores/train/trainer.cpp") continue;
    EXPECT_TRUE(text.find(call) == text.npos || file.starts_with("geores/train/run/"))
        << file << " saves checkpoints";
  }
}

// A folder with too many files has to be divided (docs/extend/architecture.md).
TEST(Layers, NoFolderAndNoFileGrowsBeyondAGlance) {
  std::map<std::string, int> counts;
  for (const auto& [file, text] : all_sources()) {
    ++counts[fs::path(file).parent_path().generic_string()];
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 500) << file;
  }
  for (const auto& [folder, count] : counts) EXPECT_LE(count, 25) << folder;
}

}  // namespace
}  // namespace geores
