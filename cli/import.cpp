#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "lab/reference/import.h"

namespace geores::cli {
namespace {

struct ImportFlags {
  std::string file, kind, out;
};

void import_file(const ImportFlags& flags) {
  const auto name = std::filesystem::path(flags.file).filename().string();
  const auto result = import_weights(Safetensors::load(flags.file), flags.kind, name);
  result.weights.save(flags.out);
  fmt::print("{}: {} tensors under our names\n{}\n", flags.out, result.tensors,
             result.options.dump(2));
}

}  // namespace

void add_import(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ImportFlags>();
  auto* command = app.add_subcommand(
      "import",
      "Convert public weights to the names of a run's best.safetensors.\n"
      "Prints the options of the model that they fit.\n"
      "  lm_gpt, lm_hc, lm_mhc, lm_mhc_lite   nanoGPT and the public mHC-lite code, whole models\n"
      "  v4                                   the hyper-connections and the head of a DeepSeek-V4\n"
      "                                       checkpoint; its other tensors are left alone\n"
      "  v41                                  those of DeepSeek-V4.1, which has no head\n"
      "Example: geores import ckpt.safetensors --kind lm_mhc --out best.safetensors");
  command->add_option("file", flags->file, "safetensors")->required();
  command->add_option("--kind", flags->kind, "which code wrote it")->required();
  command->add_option("--out", flags->out, "file to write")->required();
  command->callback([flags, &exit_code] {
    import_file(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
