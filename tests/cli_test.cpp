// The program as a stranger meets it: exit codes, one line per refusal, golden files end to end.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "geores/base/file.h"
#include "geores/base/safetensors.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

struct Run {
  int exit_code;
  std::string output;  // stdout and stderr
};

Run run(const std::string& arguments) {
  const auto command = fmt::format("{} {} 2>&1", GEORES_PROGRAM, arguments);
  auto* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (const auto count = std::fread(buffer, 1, sizeof buffer, pipe))
    output.append(buffer, count);
  const auto status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

class CommandLine : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              fmt::format("geores-cli-{}-{}", getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string golden(const std::string& name) const {
    return std::string(GEORES_GOLDEN_DIR "/") + name + ".safetensors";
  }

  std::string write(const std::vector<std::byte>& bytes) const {
    const auto path = folder_ / "dump.safetensors";
    write_file_atomically(path, bytes);
    return path.string();
  }

  // A copy of a golden file in which `change` may edit metadata and entries.
  struct Copy {
    std::map<std::string, std::string> metadata;
    std::map<std::string, TensorView> tensors;
  };
  template <class Change>
  std::string changed(const std::string& name, Change&& change) const {
    const auto file = Safetensors::load(golden(name));
    Copy copy{file.metadata(), {}};
    for (const auto& tensor : file.names()) copy.tensors.emplace(tensor, file.at(tensor));
    change(copy);
    SafetensorsWriter writer;
    for (const auto& [key, value] : copy.metadata) writer.metadata(key, value);
    for (const auto& [tensor, view] : copy.tensors)
      writer.add(tensor, view.dtype, view.shape, view.bytes);
    return write(writer.serialize());
  }

  // A golden file with its JSON header replaced by hand, as the writer would never write it.
  template <class Change>
  std::string with_header(Change&& change) const {
    const auto bytes = read_file(golden("gpt"));
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    auto header = nlohmann::json::parse(reinterpret_cast<const char*>(bytes.data()) + 8,
                                        reinterpret_cast<const char*>(bytes.data()) + 8 + length);
    change(header);
    const auto text = header.dump();
    std::vector<std::byte> out(8 + text.size());
    const uint64_t new_length = text.size();
    std::memcpy(out.data(), &new_length, 8);
    std::memcpy(out.data() + 8, text.data(), text.size());
    out.insert(out.end(), bytes.begin() + static_cast<long>(8 + length), bytes.end());
    return write(out);
  }

  // Fails unless verify refuses the file in one line that says `what`.
  void expect_refused(const std::string& path, const std::string& what) const {
    const auto result = run("verify " + path);
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    EXPECT_TRUE(result.output.starts_with("geores: [")) << result.output;
    EXPECT_NE(result.output.find(what), std::string::npos) << result.output;
  }

  fs::path folder_;
};

TEST_F(CommandLine, VerifiesEveryGoldenFile) {
  for (const auto* name :
       {"gpt", "ddl", "mhc", "jpmhc", "edelta", "edelta_entropy_gate", "edelta_stream"}) {
    const auto result = run("verify " + golden(name));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find("equal to the reference"), std::string::npos) << result.output;
  }
}

TEST_F(CommandLine, VerifyNamesTheGroupThatDiffers) {
  std::vector<std::byte> storage;
  const auto path = changed("edelta", [&](Copy& copy) {
    auto& view = copy.tensors.at("grad/pos_emb");
    storage.assign(view.bytes.begin(), view.bytes.end());
    storage[6] ^= std::byte{0x10};
    view.bytes = storage;
  });
  const auto result = run("verify " + path);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("differs from the reference in grad\n"), std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("worst: grad/pos_emb"), std::string::npos) << result.output;

  const auto json = nlohmann::json::parse(run("verify --json " + path).output);
  EXPECT_FALSE(json["passed"].get<bool>());
  for (const auto& group : json["groups"])
    EXPECT_EQ(group["passed"].get<bool>(), group["group"] != "grad");
}

TEST_F(CommandLine, VerifyRefusesBrokenFilesInOneLine) {
  expect_refused((folder_ / "absent.safetensors").string(), "absent.safetensors");
  expect_refused(folder_.string(), "director");

  auto bytes = read_file(golden("gpt"));
  bytes.resize(bytes.size() / 2);
  expect_refused(write(bytes), "dump.safetensors");

  bytes = read_file(golden("gpt"));
  const uint64_t huge = uint64_t{1} << 60;
  std::memcpy(bytes.data(), &huge, 8);
  expect_refused(write(bytes), "1152921504606846976");

  expect_refused(write({}), "dump.safetensors");
  expect_refused(
      with_header([](auto& header) { header["y"]["data_offsets"] = header["x"]["data_offsets"]; }),
      "tensor 'y': data begins at 0, inside tensor 'x'");
  expect_refused(with_header([](auto& header) { header["x"]["dtype"] = "F13"; }), "F13");
  expect_refused(with_header([](auto& header) { header["x"]["shape"] = {2, 9, 7}; }), "'x'");
  expect_refused(with_header([](auto& header) { header["x"]["strides"] = {1}; }), "strides");
}

TEST_F(CommandLine, VerifyRefusesDumpsThatDoNotFitTheModel) {
  expect_refused(changed("gpt", [](Copy& copy) { copy.tensors.erase("cotangent"); }),
                 "tensor 'cotangent' is missing");
  expect_refused(changed("gpt", [](Copy& copy) { copy.tensors.erase("param/input_proj.bias"); }),
                 "tensor 'param/input_proj.bias' is missing");
  expect_refused(changed("gpt",
                         [](Copy& copy) {
                           copy.tensors.at("x").shape = {9, 2, 6};
                         }),
                 "tensor 'x' has shape [9, 2, 6], expected [2, 9, 6]");
  expect_refused(changed("gpt", [](Copy& copy) { copy.tensors.at("x").dtype = Dtype::i64; }),
                 "tensor 'x' has dtype I64, expected F64");
  expect_refused(
      changed("gpt", [](Copy& copy) { copy.tensors.emplace("stray", copy.tensors.at("x")); }),
      "tensor 'stray' does not belong to this model");
  expect_refused(changed("gpt", [](Copy& copy) { copy.metadata["kind"] = "gtp"; }),
                 "did you mean 'gpt'?");
  expect_refused(changed("gpt", [](Copy& copy) { copy.metadata.erase("config"); }),
                 "metadata has no 'config'");

  const auto with_config = [&](const std::string& name, const std::string& key,
                               nlohmann::json value) {
    return changed(name, [&](Copy& copy) {
      auto config = nlohmann::json::parse(copy.metadata.at("config"));
      config[key] = std::move(value);
      copy.metadata["config"] = config.dump();
    });
  };
  expect_refused(with_config("gpt", "n_layers", 2), "did you mean 'n_layer'?");
  expect_refused(with_config("gpt", "n_layer", "two"), "n_layer");
  expect_refused(with_config("gpt", "n_layer", 3), "h.2.");
  expect_refused(with_config("edelta", "n_streams", 3), "width 16 is not divisible by 3 streams");
  expect_refused(with_config("gpt", "n_embd", 20), "shape");
}

TEST_F(CommandLine, ListShowsEveryConnectionWithItsCounts) {
  const auto json = nlohmann::json::parse(run("list --json").output);
  std::map<std::string, int64_t> counts;
  for (const auto& connection : json["connections"])
    counts[connection["name"]] = connection["model_parameters"].get<int64_t>();
  EXPECT_EQ(counts.size(), 12u);
  EXPECT_EQ(counts["edelta"], 1787688);

  const auto at = [](const std::string& arguments) {
    return nlohmann::json::parse(
               run("list " + arguments + " --json").output)["connections"][0]["model_parameters"]
        .get<int64_t>();
  };
  EXPECT_EQ(at("additive --layers 9"), 1780224);
  EXPECT_EQ(at("ddl_pooled --layers 8"), 1783568);
  EXPECT_EQ(at("mhc_split --layers 9"), 1838310);
  EXPECT_EQ(at("jpmhc --layers 7 --width 512"), 1770912);
  EXPECT_EQ(at("edelta_stream --layers 6 --width 512"), 1740264);

  const auto table = run("list");
  EXPECT_EQ(table.exit_code, 0);
  for (const auto& [name, count] : counts)
    EXPECT_NE(table.output.find(name), std::string::npos) << name;
  EXPECT_NE(run("list edelta").output.find("gate_bias"), std::string::npos);
}

TEST_F(CommandLine, RefusesBadWordsInOneLine) {
  struct {
    const char* arguments;
    const char* says;
  } const cases[] = {{"list mhc_lite --streams 7", "4515840 weights"},
                     {"list edelta --width 130", "not divisible by 4 streams"},
                     {"list edleta", "did you mean 'edelta'?"},
                     {"list --width nine", "--width"},
                     {"list --layers 0", "--layers"},
                     {"verify", "file is required"},
                     {"", "subcommand"},
                     {"lst", "unknown command 'lst', did you mean 'list'?"}};
  for (const auto& [arguments, says] : cases) {
    const auto result = run(arguments);
    EXPECT_NE(result.exit_code, 0) << arguments;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1)
        << arguments << ": " << result.output;
    EXPECT_NE(result.output.find(says), std::string::npos) << arguments << ": " << result.output;
  }
}

TEST_F(CommandLine, HelpTeaches) {
  const auto help = run("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.output.find("geores verify dump.safetensors"), std::string::npos);
  EXPECT_NE(run("verify --help").output.find("1e-9"), std::string::npos);
}

}  // namespace
}  // namespace geores
