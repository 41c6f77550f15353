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
  bool json = false;
};

// The model of the papers' counts: tokens of a vocabulary of one, 64 positions.
ParameterBudget budget_of(const std::string& connection, const ParamsFlags& flags) {
  auto budget = parameter_budget({.connection = connection,
                                  .input = "tokens",
                                  .layers = flags.layers,
                                  .width = flags.width,
                                  .heads = flags.heads,
                                  .streams = flags.streams,
                                  .context = 64,
                                  .vocabulary = 1,
                                  .allow_noncausal = true});
  if (flags.target > 0) budget.layers = layers_for(budget, flags.target);
  return budget;
}

void count(const ParamsFlags& flags) {
  std::vector<std::string> names;
  if (flags.model.empty())
    for (const auto& connection : connections()) names.push_back(connection.name);
  else
    names.push_back(find_connection(flags.model).name);

  auto array = nlohmann::json::array();
  Table table{"", {"connection", "layers", "sublayers", "connections", "outside", "total"}, {}};
  if (flags.target > 0) table.heads.push_back("off target");
  for (const auto& name : names) {
    const auto budget = budget_of(name, flags);
    array.push_back({{"name", name},
                     {"layers", budget.layers},
                     {"sublayers_per_block", budget.sublayers},
                     {"connections_per_block", budget.connections},
                     {"outside", budget.outside},
                     {"total", budget.total()}});
    auto& row = table.rows.emplace_back();
    row = {name,
           fmt::format("{}", budget.layers),
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
      "sublayers: attention and MLP of one block; connections: what wraps the two; outside:\n"
      "embedding, positions and last norm. Counted as in the papers: width {}, {} streams, 64\n"
      "positions, vocabulary 1.\n",
      flags.width, flags.streams);
}

}  // namespace

void add_params(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ParamsFlags>();
  auto* command = app.add_subcommand(
      "params",
      "Parameter counts of a model, and with --target the depth that comes nearest to a count: "
      "how\n"
      "to compare connections at equal size.\n"
      "Examples:\n"
      "  geores params --target 1787688          every connection at the size of 6 layers of EΔ\n"
      "  geores params --model jpmhc --width 512 --layers 7");
  command->add_option("--model", flags->model, "one connection; without it, all");
  const auto size = [&](const char* flag, int64_t& value, const char* help, int64_t least,
                        int64_t most) {
    command->add_option(flag, value, help)->capture_default_str()->check(CLI::Range(least, most));
  };
  size("--layers", flags->layers, "blocks", 1, 100000);
  size("--width", flags->width, "values per token", 1, 1 << 20);
  size("--heads", flags->heads, "attention heads", 1, 1 << 20);
  size("--streams", flags->streams, "residual streams", 1, 1024);
  command->add_option("--target", flags->target, "choose the layers for about so many parameters")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50));
  command->add_flag("--json", flags->json, "machine-readable result");
  command->callback([flags, &exit_code] {
    count(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
