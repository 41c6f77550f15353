#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/lab/lab.h"
#include "lab/spectrum/spectral_gap.h"

namespace geores::cli {
namespace {

struct SpectralGapFlags {
  int streams = 4, generators = 4, threads = 0;
  double time_limit = 60;
  bool json = false;
};

void run_spectral_gap(const SpectralGapFlags& flags) {
  const auto found = spectral::search_spectral_gap(flags.streams, flags.generators,
                                                   flags.time_limit, flags.threads);
  if (flags.json) {
    const nlohmann::json object = {{"streams", flags.streams},   {"generators", flags.generators},
                                   {"subsets", found.subsets},   {"generating", found.generating},
                                   {"best_gap", found.best_gap}, {"best_count", found.best_count},
                                   {"best", found.best}};
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print("S_{}, sets of {}: {} subsets, {} generate, best gap {:.5f}, reached by {}\n",
             flags.streams, flags.generators, found.subsets, found.generating, found.best_gap,
             found.best_count);
  for (const auto& permutation : found.best) {
    fmt::print("  stream i goes to ({})\n", fmt::join(permutation, " "));
  }
}

}  // namespace

void add_spectral_gap(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SpectralGapFlags>();
  auto* command = app.add_subcommand(
      kSpectralGap.name,
      std::string(kSpectralGap.about) +
          "\nExhaustive search over all sets of K permutations that generate S_n for the largest\n"
          "spectral gap of the random walk on the group.\n"
          "Example: geores spectral-gap --streams 4 --generators 4");
  command->add_option("--streams", flags->streams, "n, 2 to 6")->capture_default_str();
  command->add_option("--generators", flags->generators, "K, permutations in a set")
      ->capture_default_str();
  command
      ->add_option("--time-limit", flags->time_limit,
                   "seconds; a search that would take longer is refused with an estimate")
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "0: one per core")->capture_default_str();
  command->add_flag("--json", flags->json, "machine-readable result");
  command->callback([flags, &exit_code] {
    run_spectral_gap(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
