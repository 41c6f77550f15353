#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "lab/reference/verify.h"

namespace geores::cli {
namespace {

struct VerifyFlags {
  std::string file;
  bool json = false;
};

int verify(const VerifyFlags& flags) {
  const auto name = std::filesystem::path(flags.file).filename().string();
  const auto result = verify_dump(Safetensors::load(flags.file), name);
  if (flags.json) {
    auto object = result.to_json();
    object["file"] = flags.file;
    fmt::print("{}\n", object.dump(2));
    return result.passed() ? 0 : 1;
  }
  fmt::print("{} ({} in the reference), {} parameters, float64\n", result.connection, result.kind,
             result.parameters);
  fmt::print("{:<16} {:>12} {:>10}\n", "group", "error", "limit");
  std::string failed;
  for (const auto& group : result.groups) {
    fmt::print("{:<16} {:>12.3e} {:>10.0e}  {}\n", group.group, group.error, group.limit,
               group.passed() ? "ok" : "FAILED, worst: " + group.worst);
    if (!group.passed()) failed += (failed.empty() ? "" : ", ") + group.group;
  }
  if (failed.empty())
    fmt::print("{}: equal to the reference\n", name);
  else
    fmt::print("{}: differs from the reference in {}\n", name, failed);
  return failed.empty() ? 0 : 1;
}

}  // namespace

void add_verify(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<VerifyFlags>();
  auto* command = app.add_subcommand(
      "verify",
      "Compare a model with a dump of another implementation.\n"
      "The file's metadata names the model; its tensors hold weights, inputs, outputs, gradients "
      "and\n"
      "training steps. Everything is recomputed in float64. Exit 0 only if every group of tensors\n"
      "agrees to 1e-9 of its largest magnitude (weights after training: 1e-7; DeepSeek-V4 after\n"
      "its first norm, which computes in float32: 3e-7).\n"
      "Known: the EΔ paper's models, nanoGPT, the public mHC-lite code and DeepSeek-V4's\n"
      "hyper-connections.\n"
      "Example: geores verify tests/golden/edelta.safetensors");
  command->add_option("file", flags->file, "safetensors dump")->required();
  command->add_flag("--json", flags->json, "machine-readable result");
  command->callback([flags, &exit_code] { exit_code = verify(*flags); });
}

}  // namespace geores::cli
