#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/lab/lab.h"
#include "geores/base/error.h"
#include "geores/base/file.h"
#include "lab/spectrum/figure1.h"
#include "lab/spectrum/mixer_file.h"
#include "lab/spectrum/mixer_name.h"
#include "lab/spectrum/prediction.h"

namespace geores::cli {
namespace {

using namespace geores::spectral;

struct SpectrumFlags {
  std::vector<std::string> mixers = {"bistochastic"};
  std::optional<int> depth, streams;
  int block = 25;
  double sigma2_total = 0.05;
  std::vector<double> spread, gather;
  bool same_mixer = false;
  double eta = 0.02;
  double near_zero = 0.1;
  int samples = 0;
  std::uint64_t seed = 1;
  int threads = 0;
  bool skip_printed = false;
  bool figure1 = false;
  bool json = false;
  std::string out;
};

struct Job {
  std::string title;
  Chain chain;
  std::vector<double> measured;
};

// "file:PATH" and "run:DIR" with their prefix taken off; "" for a name of the zoo.
std::string after(const std::string& spec, const std::string& prefix) {
  return spec.starts_with(prefix) ? spec.substr(prefix.size()) : "";
}

void check_streams(const Eigen::MatrixXd& mixer, std::optional<int> streams,
                   const std::string& spec) {
  require(mixer.rows() == streams.value_or(mixer.rows()), "spectrum",
          "mixer {} has {} streams, wanted are {}", quote(spec), mixer.rows(), streams.value_or(0));
}

Job job_from_run(const SpectrumFlags& flags) {
  require(flags.mixers.size() == 1, "spectrum", "run:DIR excludes other mixers, got {}",
          flags.mixers.size());
  const auto spec = flags.mixers.front();
  auto run = load_run_mixers(after(spec, "run:"));
  check_streams(run.mixers.front(), flags.streams, spec);
  const int depth = static_cast<int>(run.mixers.size());
  require(flags.depth.value_or(depth) == depth, "spectrum", "{} has {} mixers, --depth says {}",
          quote(spec), depth, flags.depth.value_or(depth));
  Job job{fmt::format("{}, L = {}", spec, depth), make_chain(run.mixers, depth, flags.sigma2_total),
          std::move(run.jacobian)};
  for (std::size_t l = 0; l < run.sigma2.size(); ++l) job.chain[l].sigma2 = run.sigma2[l];
  return job;
}

Job make_job(const SpectrumFlags& flags) {
  require(!flags.mixers.empty(), "spectrum", "no mixer given");
  if (flags.mixers.front().starts_with("run:")) return job_from_run(flags);
  const int depth = flags.depth.value_or(10);
  require(depth >= 1 && depth <= 100000, "spectrum", "depth must be 1 ... 100000, got {}", depth);
  auto streams = flags.streams;
  std::vector<Eigen::MatrixXd> loaded(flags.mixers.size());
  for (std::size_t i = 0; i < flags.mixers.size(); ++i) {
    const auto path = after(flags.mixers[i], "file:");
    if (path.empty()) continue;
    loaded[i] = load_mixer(path);
    check_streams(loaded[i], streams, flags.mixers[i]);
    streams = static_cast<int>(loaded[i].rows());
  }
  const int n = streams.value_or(4);
  require(n >= 1 && n <= 64, "spectrum", "streams must be 1 ... 64, got {}", n);
  std::vector<Eigen::MatrixXd> mixers;
  for (int layer = 0; layer < depth; ++layer) {
    const auto kind = static_cast<std::size_t>(layer) % flags.mixers.size();
    const int draw = flags.same_mixer ? 0 : layer;
    mixers.push_back(loaded[kind].size() > 0 ? loaded[kind]
                                             : make_mixer(flags.mixers[kind], n, flags.seed, draw));
  }
  std::string names;
  for (const auto& spec : flags.mixers) names += (names.empty() ? "" : " + ") + spec;
  return {
      fmt::format("{}, L = {}", names, depth), make_chain(mixers, depth, flags.sigma2_total), {}};
}

Chain with_branch(Chain chain, const SpectrumFlags& flags) {
  if (flags.spread.empty() && flags.gather.empty()) return chain;
  for (auto& layer : chain) {
    layer.branch = Branch{Eigen::Map<const Eigen::VectorXd>(flags.spread.data(),
                                                            static_cast<long>(flags.spread.size())),
                          Eigen::Map<const Eigen::VectorXd>(
                              flags.gather.data(), static_cast<long>(flags.gather.size()))};
  }
  check(chain);
  return chain;
}

nlohmann::json to_json(const Summary& summary) {
  return {{"near_zero", summary.near_zero},   {"quantile_5", summary.low},
          {"quantile_95", summary.high},      {"condition_95_5", summary.condition()},
          {"mean_s2", summary.moments.first}, {"mean_s4", summary.moments.second}};
}

nlohmann::json to_json(const spectral::Comparison& comparison) {
  auto object = to_json(comparison.summary);
  object["l1_distance"] = comparison.distance;
  object["median_condition"] = comparison.sample.median_condition();
  object["singular_values"] = comparison.sample.all().size();
  object["density"] = comparison.curve.rho;
  return object;
}

nlohmann::json to_json(const Prediction& p) {
  auto theory = to_json(p.summary);
  theory["mass"] = p.mass;
  theory["edge"] = p.edge;
  theory["exact_mean_s2"] = p.exact.first;
  theory["exact_mean_s4"] = p.exact.second;
  theory["density"] = p.theory.rho;
  nlohmann::json object = {{"eta", p.options.eta},
                           {"near_zero_limit", p.options.near_zero},
                           {"s", p.theory.s},
                           {"theory", theory}};
  if (!p.printed.s.empty()) {
    object["as_printed"] = {
        {"mass", p.printed_mass}, {"l1_distance", p.printed_distance}, {"density", p.printed.rho}};
  } else if (!p.printed_failure.empty()) {
    object["as_printed"] = {{"failure", p.printed_failure}};
  }
  if (p.monte_carlo) object["monte_carlo"] = to_json(*p.monte_carlo);
  if (p.measured) object["measured"] = to_json(*p.measured);
  return object;
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.5g}", value) : std::string("-");
}

void print_table(const Prediction& p, const std::string& title) {
  const double none = std::nan("");
  const auto row = [&](const std::string& what, double theory, double printed, auto of_sample) {
    std::string line = fmt::format("{:<26}{:>12}{:>12}", what, number(theory), number(printed));
    if (p.monte_carlo) line += fmt::format("{:>13}", number(of_sample(*p.monte_carlo)));
    if (p.measured) line += fmt::format("{:>12}", number(of_sample(*p.measured)));
    fmt::print("{}\n", line);
  };
  fmt::print("{}\n{:<26}{:>12}{:>12}{}{}\n", title, "", "theory", "as printed",
             p.monte_carlo ? "  Monte Carlo" : "", p.measured ? "    measured" : "");
  const auto& t = p.summary;
  row(fmt::format("fraction below {:g}", p.options.near_zero), t.near_zero, none,
      [](const spectral::Comparison& c) { return c.summary.near_zero; });
  row(t.low == 0 ? "5 % quantile (0: < 1e-4)" : "5 % quantile", t.low, none,
      [](const spectral::Comparison& c) { return c.summary.low; });
  row("95 % quantile", t.high, none, [](const spectral::Comparison& c) { return c.summary.high; });
  row("condition 95 % / 5 %", t.condition(), none,
      [](const spectral::Comparison& c) { return c.summary.condition(); });
  row("median s_max / s_min", none, none,
      [](const spectral::Comparison& c) { return c.sample.median_condition(); });
  row("mean s^2", t.moments.first, none,
      [](const spectral::Comparison& c) { return c.summary.moments.first; });
  row("mean s^4", t.moments.second, none,
      [](const spectral::Comparison& c) { return c.summary.moments.second; });
  row("mass on the grid", p.mass, p.printed.s.empty() ? none : p.printed_mass,
      [](const spectral::Comparison& c) { return mass(c.curve); });
  const auto reference = p.monte_carlo ? "L1 from Monte Carlo" : "L1 from theory";
  row(reference, p.monte_carlo ? p.monte_carlo->distance : 0,
      p.printed.s.empty() ? none : p.printed_distance,
      [&](const spectral::Comparison&) { return none; });
  if (p.measured) fmt::print("L1 theory to measured     {:>12}\n", number(p.measured->distance));
  if (!p.printed_failure.empty()) fmt::print("as printed: {}\n", p.printed_failure);
}

void save(const std::string& out, const svg::Figure& figure) {
  if (out.empty()) return;
  write_file_atomically(out, svg::render(figure));
}

void run_figure1(const SpectrumFlags& flags) {
  Figure1Options options;
  options.seed = flags.seed;
  options.threads = flags.threads;
  if (flags.samples > 0) options.samples = flags.samples;
  const auto panels = compute_figure1(options);
  save(flags.out, draw_figure1(panels, options));
  if (flags.json) {
    auto array = nlohmann::json::array();
    for (const auto& panel : panels) {
      auto object = to_json(panel.prediction);
      object["mixer"] = panel.mixer;
      object["depth"] = panel.depth;
      array.push_back(object);
    }
    fmt::print("{}\n", nlohmann::json{{"panels", array}}.dump());
    return;
  }
  fmt::print("n = {}, p = {}, sigma2 L = {:g}, eta = {:g}, {} samples, seed {}\n", options.streams,
             options.block, options.sigma2_total, options.eta, options.samples, options.seed);
  fmt::print("{:<14}{:>3}{:>12}{:>16}{:>12}{:>12}{:>12}{:>12}\n", "mixer", "L", "L1 theory",
             "L1 as printed", "mass", "printed", "< 0.1", "sampled");
  for (const auto& [mixer, depth, p] : panels) {
    const bool solved = !p.printed.s.empty();
    fmt::print("{:<14}{:>3}{:>12.4f}{:>16}{:>12.4f}{:>12}{:>12.4f}{:>12.4f}\n", mixer, depth,
               p.monte_carlo->distance,
               solved ? fmt::format("{:.4f}", p.printed_distance) : "no solution", p.mass,
               solved ? fmt::format("{:.4f}", p.printed_mass) : "-", p.summary.near_zero,
               p.monte_carlo->summary.near_zero);
  }
}

void run_spectrum(const SpectrumFlags& flags) {
  require(flags.threads >= 0, "spectrum", "threads must be >= 0, got {}", flags.threads);
  require(flags.samples >= 0, "spectrum", "Monte Carlo samples must be >= 0, got {}",
          flags.samples);
  if (flags.figure1) return run_figure1(flags);
  auto job = make_job(flags);
  job.chain = with_branch(std::move(job.chain), flags);
  const bool plain = !job.chain.front().branch;
  PredictionOptions options{.eta = flags.eta,
                            .near_zero = flags.near_zero,
                            .printed = plain && !flags.skip_printed,
                            .threads = flags.threads,
                            .monte_carlo = std::nullopt,
                            .measured = job.measured};
  if (flags.samples > 0) {
    const auto size = job.chain.front().mixer.rows() * std::max(flags.block, 1);
    require(size <= 4096, "spectrum", "streams times block must be <= 4096, got {}", size);
    options.monte_carlo = MonteCarlo{flags.samples, flags.block, flags.seed};
  }
  const auto prediction = predict(job.chain, options);
  svg::Figure figure;
  figure.title = "Singular values of the residual Jacobian";
  figure.subtitle = fmt::format("n = {}, σ²L = {:g}, η = {:g}", job.chain.front().mixer.rows(),
                                flags.sigma2_total, flags.eta);
  figure.panel_width = 620;
  figure.panel_height = 380;
  figure.panels.push_back(draw(prediction, job.title));
  save(flags.out, figure);
  if (flags.json) {
    auto object = to_json(prediction);
    object["title"] = job.title;
    fmt::print("{}\n", object.dump());
  } else {
    print_table(prediction, job.title);
  }
}

std::string mixer_help() {
  std::string text = "one or more, separated by commas, taken in turn over the layers:\n";
  for (const auto& kind : mixer_names()) text += fmt::format("{:<14}{}\n", kind.name, kind.summary);
  return text +
         "file:PATH     a square matrix, .npy or text\n"
         "run:DIR       measured mixers of a trained run (DIR/mixers.safetensors)";
}

}  // namespace

void add_spectrum(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SpectrumFlags>();
  auto* command = app.add_subcommand(
      kSpectrum.name,
      std::string(kSpectrum.about) +
          "\nJ = Y_L ... Y_1 with Y = A x I + X, predicted by free probability, next to Monte "
          "Carlo and\n"
          "the equation as printed by JPmHC.\n"
          "Examples:\n"
          "  geores spectrum --mixer bistochastic --depth 10 --monte-carlo 500 --out spectrum.svg\n"
          "  geores spectrum --mixer orthogonal,shc --depth 48 --streams 8\n"
          "  geores spectrum --mixer file:mixer.txt --depth 24 --sigma2-total 0.5 --json\n"
          "  geores spectrum --mixer identity --spread 1,1,1,1 --gather 0.25,0.25,0.25,0.25\n"
          "  geores spectrum --figure1 --out figure1.svg");
  command->add_option("--mixer", flags->mixers, mixer_help())
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--depth", flags->depth, "layers L (10, or as many as the run has)");
  command->add_option("--streams", flags->streams, "streams n (4, or as the file has)");
  command->add_option("--block", flags->block, "width p of one stream in Monte Carlo")
      ->capture_default_str();
  command->add_option("--sigma2-total", flags->sigma2_total, "branch variance sigma2 times L")
      ->capture_default_str();
  command->add_flag("--same-mixer", flags->same_mixer, "one draw for all layers, not one each");
  command->add_option("--spread", flags->spread, "hyper-connection branch: row sums of H_post (n)")
      ->delimiter(',');
  command
      ->add_option("--gather", flags->gather, "hyper-connection branch: column means of H_pre (n)")
      ->delimiter(',');
  command->add_option("--monte-carlo", flags->samples, "samples of J (0: none; 500 with --figure1)")
      ->capture_default_str();
  command->add_option("--eta", flags->eta, "blur of the curves")->capture_default_str();
  command->add_option("--near-zero", flags->near_zero, "count singular values below this")
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "of mixers and Monte Carlo")->capture_default_str();
  command->add_option("--threads", flags->threads, "0: one per core")->capture_default_str();
  command->add_flag("--skip-printed", flags->skip_printed, "omit the equation as printed");
  command->add_flag(
      "--figure1", flags->figure1,
      "JPmHC's Figure 1: identity, bistochastic, orthogonal, gaussian at L = 1, 2, 10");
  command->add_option("--out", flags->out, "write the picture here (SVG)");
  command->add_flag("--json", flags->json, "machine-readable result, with the curves");
  command->callback([flags, &exit_code] {
    run_spectrum(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
