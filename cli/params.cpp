#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/commands.h"
#include "geores/base/error.h"
#include "geores/base/pages/table.h"
#include "geores/model/transformer/parameter_budget.h"

namespace geores::cli {
namespace {

struct ParamsFlags {
  std::string model;
  int64_t layers = 6, width = 128, heads = 4, streams = 4, target = 0;
  int64_t vocabulary = 1, context = 64;  // of the papers' counts
  bool json = false;
};

// Chooses the width, if it is 0, or else the layers that come nearest to the target.
struct Sized {
  int64_t width;
  ParameterBudget budget;
};
Sized sized(const std::string& connection, const ParamsFlags& flags) {
  TransformerConfig config{.connection = connection,
                           .input = "tokens",
                           .layers = flags.layers,
                           .width = flags.width,
                           .heads = flags.heads,
                           .streams = flags.streams,
                           .context = flags.context,
                           .vocabulary = flags.vocabulary,
                           .allow_noncausal = true};
  const bool choose_width = flags.width == 0;
  if (choose_width) config.width = width_for(config, flags.target);
  auto budget = parameter_budget(config);
  if (flags.target > 0 && !choose_width) budget.layers = layers_for(budget, flags.target);
  return {config.width, budget};
}

void count(const ParamsFlags& flags) {
  require(flags.width > 0 || flags.target > 0, "params",
          "--width 0 chooses the width: --target must say for how many parameters");
  std::vector<std::string> names;
  if (flags.model.empty())
    for (const auto& connection : connections()) names.push_back(connection.name);
  else
    names.push_back(find_connection(flags.model).name);

  auto array = nlohmann::json::array();
  Table table{
      "", {"connection", "layers", "width", "sublayers", "connections", "outside", "total"}, {}};
  if (flags.target > 0) table.heads.push_back("off target");
  for (const auto& name : names) {
    const auto [width, budget] = sized(name, flags);
    array.push_back({{"name", name},
                     {"layers", budget.layers},
                     {"width", width},
                     {"sublayers_per_block", budget.sublayers},
                     {"connections_per_block", budget.connections},
                     {"outside", budget.outside},
                     {"total", budget.total()}});
    auto& row = table.rows.emplace_back();
    row = {name,
           fmt::format("{}", budget.layers),
           fmt::format("{}", width),
           fmt::format("{}", budget.sublayers),
           fmt::format("{}", budget.connections),
           fmt::format("{}", budget.outside),
           fmt::format("{}", budget.total())};
    if (flags.target > 0)
      row.push_back(fmt::format(
          "{:+.1f} %",
          100.0 * static_cast<double>(budget.total()) / static_cast<double>(flags.target) - 100.0));
  }
  if (flags.json) {
    fmt::print("{}\n", array.dump(2));
    return;
  }
  fmt::print("{}\n", to_text(table));
  fmt::print(
      "sublayers: attention and MLP of one block; connections: the residual connections around "
      "both; outside:\n"
      "embedding, positions and last norm. Counted with {} streams, {} positions and a vocabulary\n"
      "of {}; the papers count with 64 and 1.\n",
      flags.streams, flags.context, flags.vocabulary);
}

}  // namespace

void add_params(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ParamsFlags>();
  auto* command = app.add_subcommand(
      "params",
      "Parameter counts of a model.\n"
      "With --target, the depth or the width whose count is nearest to it: how to compare\n"
      "connections at equal size.\n"
      "Examples:\n"
      "  geores params --target 1787688          every connection at the size of 6 layers of EΔ\n"
      "  geores params --model jpmhc --width 512 --layers 7\n"
      "  geores params --layers 100 --width 0 --target 20000000 --heads 8 --vocabulary 8192 "
      "--context 256");
  command->add_option("--model", flags->model, "one connection; without it, all");
  const auto size = [&](const char* flag, int64_t& value, const char* help, int64_t least,
                        int64_t most) {
    command->add_option(flag, value, help)->capture_default_str()->check(CLI::Range(least, most));
  };
  size("--layers", flags->layers, "blocks", 1, 100000);
  size("--width", flags->width,
       "values per token; 0: as --target needs, a multiple of heads and streams", 0, 1 << 20);
  size("--heads", flags->heads, "attention heads", 1, 1 << 20);
  size("--streams", flags->streams, "residual streams", 1, 1024);
  size("--vocabulary", flags->vocabulary, "tokens that have an embedding", 1, 1 << 24);
  size("--context", flags->context, "positions", 1, 1 << 24);
  command
      ->add_option("--target", flags->target,
                   "choose the layers for about so many parameters, or with --width 0 the width")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50));
  command->add_flag("--json", flags->json, "machine-readable result");
  command->callback([flags, &exit_code] {
    count(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
