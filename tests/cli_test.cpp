// The program as a stranger meets it: exit codes, one line per refusal, golden files end to end.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/terminal/progress_bar.h"
#include "geores/base/file.h"
#include "geores/base/formats/npy.h"
#include "geores/base/formats/safetensors.h"
#include "geores/testing/testing.h"
#include "tests/program.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

class CommandLine : public testing::Test {
 protected:
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
    const auto result = run_program("verify " + path);
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    EXPECT_TRUE(result.output.starts_with("geores: [")) << result.output;
    EXPECT_NE(result.output.find(what), std::string::npos) << result.output;
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(CommandLine, VerifiesEveryGoldenFile) {
  for (const auto* name :
       {"gpt", "ddl", "mhc", "jpmhc", "edelta", "edelta_entropy_gate", "edelta_stream", "lm_gpt",
        "lm_hc", "lm_mhc", "lm_mhc_lite", "mhc_v4", "mhc_v41"}) {
    const auto result = run_program("verify " + golden(name));
    EXPECT_EQ(result.exit_code, 0) << result.output;
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
  const auto result = run_program("verify " + path);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find(" grad\n"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find(" grad/pos_emb"), std::string::npos) << result.output;

  const auto json = nlohmann::json::parse(run_program("verify --json " + path).output);
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
  expect_refused(with_config("gpt", "n_head", 3), "width 16 is not divisible by 3 heads");
}

TEST_F(CommandLine, ListShowsEveryConnectionWithItsCounts) {
  const auto json = nlohmann::json::parse(run_program("list --json").output);
  std::map<std::string, int64_t> counts;
  for (const auto& connection : json["connections"])
    counts[connection["name"]] = connection["model_parameters"].get<int64_t>();
  for (const auto* name : {"additive", "edelta", "edelta_stream", "ddl", "ddl_pooled", "hc", "mhc",
                           "mhc_lite", "shc", "mhc_split", "jpmhc", "mgt"})
    EXPECT_TRUE(counts.contains(name)) << name;
  EXPECT_EQ(counts["edelta"], 1787688);

  const auto at = [](const std::string& arguments) {
    return nlohmann::json::parse(run_program("list " + arguments + " --json")
                                     .output)["connections"][0]["model_parameters"]
        .get<int64_t>();
  };
  EXPECT_EQ(at("additive --layers 9"), 1780224);
  EXPECT_EQ(at("ddl_pooled --layers 8"), 1783568);
  EXPECT_EQ(at("mhc_split --layers 9"), 1838310);
  EXPECT_EQ(at("jpmhc --layers 7 --width 512"), 1770912);
  EXPECT_EQ(at("edelta_stream --layers 6 --width 512"), 1740264);

  const auto table = run_program("list");
  EXPECT_EQ(table.exit_code, 0);
  for (const auto& [name, count] : counts)
    EXPECT_NE(table.output.find(name), std::string::npos) << name;
  EXPECT_NE(run_program("list edelta").output.find("gate_bias"), std::string::npos);
}

TEST_F(CommandLine, RefusesBadWordsInOneLine) {
  struct {
    const char* arguments;
    int exit_code;
    const char* says;
  } const cases[] = {{"list mhc_lite --streams 7", 1, "4515840 weights"},
                     {"list edelta --width 130", 1, "not divisible by 4 streams"},
                     {"list edleta", 1, "did you mean 'edelta'?"},
                     {"list --width nine", 2, "--width"},
                     {"list --layers 0", 2, "--layers"},
                     {"verify", 2, "file is required"},
                     {"", 2, "subcommand"},
                     {"lst", 1, "unknown command 'lst', did you mean 'list'?"}};
  for (const auto& [arguments, exit_code, says] : cases) {
    const auto result = run_program(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << arguments;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1)
        << arguments << ": " << result.output;
    EXPECT_NE(result.output.find(says), std::string::npos) << arguments << ": " << result.output;
  }
}

// ---- training from a user's own files

struct UserData : CommandLine {
  // (N, T, 2) arrays; y is x one step later.
  static NpyArray array(int64_t sequences, int64_t length, float first = 0.5f) {
    NpyArray array{.dtype = Dtype::f32, .shape = {sequences, length, 2}, .bytes = {}};
    std::vector<float> values(static_cast<std::size_t>(sequences * length * 2));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = i == 0 ? first : 0.1f * static_cast<float>(i % 7);
    const auto bytes = std::as_bytes(std::span(values));
    array.bytes.assign(bytes.begin(), bytes.end());
    return array;
  }
  void save(const std::string& name, const NpyArray& data) const { save_npy(folder_ / name, data); }
  void save_all() const {
    for (const auto* name : {"train_x.npy", "train_y.npy"}) save(name, array(6, 9));
    for (const auto* name : {"val_x.npy", "val_y.npy"}) save(name, array(3, 9));
  }
  std::string train(const std::string& model = "edelta --pool causal") const {
    return "train --task folder --data " + folder_.string() + " --model " + model +
           " --layers 1 --width 8 --heads 2 --steps 6 --batch 2 --warmup 2 --eval-interval 3 "
           "--eval-batches 1 --final-eval-batches 1 --out " +
           out();
  }
  std::string out() const { return (folder_ / "run").string(); }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  void expect_refused(const std::string& arguments, const std::string& what) const {
    const auto result = run_program(arguments);
    EXPECT_NE(result.exit_code, 0) << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    EXPECT_NE(result.output.find(what), std::string::npos) << result.output;
  }
};

TEST_F(UserData, TrainsEvaluatesPredictsAndStreams) {
  save_all();
  auto result = run_program(train());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  result = run_program("eval --json --run " + out());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(nlohmann::json::parse(result.output).at("validation").is_number());

  const auto predict = "predict --run " + out() + " --input " + file("val_x.npy") + " --output ";
  ASSERT_EQ(run_program(predict + file("whole.npy")).exit_code, 0);
  ASSERT_EQ(run_program(predict + file("stream.npy") + " --stream").exit_code, 0);
  const auto whole = load_npy(file("whole.npy")), stream = load_npy(file("stream.npy"));
  ASSERT_EQ(whole.shape, (std::vector<int64_t>{3, 9, 2}));
  ASSERT_EQ(stream.shape, whole.shape);
  const auto* a = reinterpret_cast<const float*>(whole.bytes.data());
  const auto* b = reinterpret_cast<const float*>(stream.bytes.data());
  for (int i = 0; i < 3 * 9 * 2; ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;

  // The same up to position 4, whatever comes later.
  auto other = array(3, 9);
  for (int sequence = 0; sequence < 3; ++sequence)
    for (int i = 5 * 2; i < 9 * 2; ++i)
      reinterpret_cast<float*>(other.bytes.data())[sequence * 18 + i] =
          -3.0f + static_cast<float>(i);
  save("other_x.npy", other);
  ASSERT_EQ(run_program("predict --run " + out() + " --input " + file("other_x.npy") +
                        " --output " + file("other.npy"))
                .exit_code,
            0);
  const auto changed = load_npy(file("other.npy"));
  const auto* c = reinterpret_cast<const float*>(changed.bytes.data());
  for (int sequence = 0; sequence < 3; ++sequence) {
    for (int i = 0; i < 5 * 2; ++i) EXPECT_EQ(a[sequence * 18 + i], c[sequence * 18 + i]) << i;
    EXPECT_NE(a[sequence * 18 + 17], c[sequence * 18 + 17]);
  }
}

TEST_F(UserData, PredictsWithoutTheDataItLearnedFrom) {
  save_all();
  ASSERT_EQ(run_program(train()).exit_code, 0);
  save("x.npy", array(2, 9));
  for (const auto* name : {"train_x.npy", "train_y.npy", "val_x.npy", "val_y.npy"})
    fs::remove(folder_ / name);
  const auto predict =
      "predict --run " + out() + " --input " + file("x.npy") + " --output " + file("y.npy");
  auto result = run_program(predict);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(load_npy(file("y.npy")).shape, (std::vector<int64_t>{2, 9, 2}));

  // A run from before there was a model.json learns the shape from its data.
  fs::remove(fs::path(out()) / "model.json");
  expect_refused(predict, "train_x.npy");
  save_all();
  result = run_program(predict);
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(UserData, ConfigurationIsCompleteAndNamesItsConnection) {
  save_all();
  ASSERT_EQ(run_program(train()).exit_code, 0);
  const auto read = [&](const char* name) {
    return nlohmann::json::parse(read_text_file(fs::path(out()) / name));
  };
  const auto config = read("config.json");
  EXPECT_EQ(config.at("model"), "transformer");
  EXPECT_EQ(config.at("connection"), "edelta");
  EXPECT_EQ(config.at("pool"), "causal");
  EXPECT_TRUE(config.contains("gate_weight")) << "a default of the connection";
  EXPECT_FALSE(config.contains("theta")) << "an option of another task";
  EXPECT_EQ(read("model.json").at("heads"), 2);

  // The same value again is no other configuration.
  const auto again =
      fmt::format("train --resume {} --gate-weight {}", out(), config.at("gate_weight").dump());
  auto result = run_program(again);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  expect_refused("train --resume " + out() + " --gate-weight 0.75", "'gate_weight'");
  result = run_program(train("transformer --connection edelta --pool causal") + "2");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  expect_refused("train --task folder --data " + folder_.string() +
                     " --model additive --width 8 --heads 3 --out " + file("other"),
                 "width 8 is not divisible by 3 heads");
}

TEST_F(UserData, RefusesBadDataInOneLineAndMakesNoRun) {
  save_all();
  save("val_x.npy", array(3, 9, std::numeric_limits<float>::quiet_NaN()));
  expect_refused(train(), "val_x.npy");
  save_all();
  save("train_y.npy", array(6, 8));
  expect_refused(train(), "train_y.npy");
  save_all();
  save("train_x.npy", array(0, 9));
  save("train_y.npy", array(0, 9));
  expect_refused(train(), "train_x.npy");
  save_all();
  expect_refused(train("edleta"), "did you mean 'edelta'?");
  expect_refused("train --task gyroscop --out " + out(), "did you mean 'gyroscope'?");
  expect_refused("train --preset edelta_plane --out " + out(), "did you mean 'edelta_plain'?");
  expect_refused("train --task gyroscope", "--out");
  expect_refused(train("additive --device tpu"), "device");
  expect_refused(train("additive --precision tf32"), "needs device cuda");
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(UserData, ComparesRunsOnTheSameData) {
  save_all();
  ASSERT_EQ(run_program(train()).exit_code, 0);
  ASSERT_EQ(run_program(train("additive") + "2").exit_code, 0);
  const auto page = file("page.html");
  auto result = run_program("compare " + out() + " " + out() + "2 --page " + page);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (const auto* text : {"run2", "additive", "no model: running_mean", "*"})
    EXPECT_NE(result.output.find(text), std::string::npos) << result.output;
  const auto html = read_text_file(page);
  EXPECT_NE(html.find("<svg "), std::string::npos);
  // In each column of losses the lowest number is marked, in whatever row it is.
  std::vector<double> bests, exacts;
  const auto results =
      nlohmann::json::parse(run_program("compare --json " + out() + " " + out() + "2").output);
  for (const auto& one : results.at("runs")) {
    bests.push_back(one.at("result").at("best_validation"));
    exacts.push_back(one.at("result").at("exact_best"));
  }
  for (const auto& [name, loss] : results.at("trivial_baselines").items()) exacts.push_back(loss);
  for (const auto& losses : {bests, exacts})
    EXPECT_NE(html.find(fmt::format("<td class=\"marked\">{:.3e}</td>",
                                    *std::ranges::min_element(losses))),
              std::string::npos)
        << html;
  EXPECT_EQ(nlohmann::json::parse(run_program("compare --json " + out()).output).at("runs").size(),
            1u);

  fs::remove(fs::path(out()) / "result.json");
  expect_refused("compare " + out(), "is not finished");
  expect_refused("compare " + out() + "2 " + file("nowhere"), "no run");
}

TEST_F(UserData, ARunIsNeitherMixedNorOverwritten) {
  save_all();
  ASSERT_EQ(run_program(train()).exit_code, 0);
  const auto before = read_file(fs::path(out()) / "best.safetensors");
  expect_refused(train(), "--overwrite");
  expect_refused(train("edelta --streams 3") + " --overwrite", "not divisible by 3 streams");
  expect_refused(train("additive --mlp relu") + " --overwrite", "gelu, swiglu");
  expect_refused("train --resume " + out() + " --lr 0.5", "'lr'");
  expect_refused("train --resume " + file("nowhere"), "no run");
  EXPECT_EQ(read_file(fs::path(out()) / "best.safetensors"), before);
  save("long.npy", array(1, 40));
  expect_refused(
      "predict --run " + out() + " --input " + file("long.npy") + " --output " + file("y.npy"),
      "longer than the model's context of 10");
  save("nan.npy", array(1, 5, std::numeric_limits<float>::infinity()));
  expect_refused(
      "predict --run " + out() + " --input " + file("nan.npy") + " --output " + file("y.npy"),
      "NaN or infinite");
  EXPECT_FALSE(fs::exists(file("y.npy")));
  EXPECT_EQ(run_program(train("additive") + " --overwrite").exit_code, 0);
}

TEST_F(CommandLine, ParamsMatchesATargetAndReproduceRefusesBadWords) {
  auto result = run_program("params --json --target 1787688");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  std::map<std::string, int64_t> layers;
  for (const auto& entry : nlohmann::json::parse(result.output))
    layers[entry.at("name")] = entry.at("layers");
  EXPECT_EQ(layers["edelta"], 6);
  EXPECT_EQ(layers["additive"], 9);
  EXPECT_EQ(layers["ddl_pooled"], 8);
  EXPECT_EQ(layers["mhc_split"], 9);
  result = run_program("params --model jpmhc --width 512 --layers 7 --json");
  EXPECT_EQ(nlohmann::json::parse(result.output)[0].at("total"), 1770912);
  result = run_program(
      "params --model mgt --layers 100 --target 20000000 --width 0 --heads 8 --vocabulary 8192 "
      "--context 256 --json");
  EXPECT_EQ(nlohmann::json::parse(result.output)[0].at("width"), 112) << result.output;
  EXPECT_EQ(run_program("params --layers 100 --target 20000000 --width 0").exit_code, 0);
  EXPECT_NE(run_program("params --width 0").output.find("--target"), std::string::npos);

  for (const auto& [arguments, what] :
       std::vector<std::pair<std::string, std::string>>{{"--scale large", "quick or paper"},
                                                        {"--only thetta", "did you mean 'theta'?"},
                                                        {"--seeds 4 4", "given twice"},
                                                        {"--jobs 0", "--jobs"}}) {
    result = run_program("reproduce " + arguments + " --out " + (folder_ / "report").string());
    EXPECT_NE(result.exit_code, 0);
    EXPECT_NE(result.output.find(what), std::string::npos) << result.output;
  }
  EXPECT_FALSE(fs::exists(folder_ / "report"));
}

// A reproduction trains learning rates first and seeds then: two pieces of work, one bar.
TEST(ProgressBar, ShowsAPieceOfWorkAfterAnother) {
  testing::internal::CaptureStderr();
  {
    cli::ProgressBar bar("training");
    for (const int64_t done : {1, 2, 40}) bar.show(done, 40, 1, "a");
    for (const int64_t done : {1, 2, 40}) bar.show(done, 40, 2, "b");
    for (const int64_t done : {1, 2, 80}) bar.show(done, 80, 3, "c");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "training 1/40 a 1 s\ntraining 40/40 a 1 s\n"
            "training 1/40 b 2 s\ntraining 40/40 b 2 s\n"
            "training 1/80 c 3 s\ntraining 80/80 c 3 s\n");
}

TEST_F(CommandLine, HelpTeaches) {
  const auto help = run_program("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.output.find("geores train --task text"), std::string::npos);
  // A line for each command: the first sentence of its help.
  for (const auto* line :
       {"  verify                      Compare a model with a dump of another implementation.\n",
        "  bench                       What a training step costs, fused"})
    EXPECT_NE(help.output.find(line), std::string::npos) << line << help.output;
  EXPECT_NE(run_program("verify --help").output.find("1e-9"), std::string::npos);
}

}  // namespace
}  // namespace geores
