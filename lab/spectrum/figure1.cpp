#include "lab/spectrum/figure1.h"

#include <fmt/format.h>

#include "lab/spectrum/mixer_name.h"

namespace geores::spectral {

std::vector<Figure1Panel> compute_figure1(const Figure1Options& options) {
  std::vector<Figure1Panel> panels;
  for (const char* mixer : {"identity", "bistochastic", "orthogonal", "gaussian"}) {
    std::vector<Eigen::MatrixXd> mixers;
    for (int layer = 0; layer < 10; ++layer) {
      mixers.push_back(make_mixer(mixer, options.streams, options.seed, layer));
    }
    for (const int depth : {1, 2, 10}) {
      const MonteCarlo monte_carlo{
          .samples = options.samples, .block = options.block, .seed = options.seed};
      panels.push_back(
          {mixer, depth,
           predict(make_chain(mixers, depth, options.sigma2_total), {.eta = options.eta,
                                                                     .threads = options.threads,
                                                                     .monte_carlo = monte_carlo,
                                                                     .measured = {}})});
    }
  }
  return panels;
}

svg::Figure draw_figure1(const std::vector<Figure1Panel>& panels, const Figure1Options& options) {
  svg::Figure figure;
  figure.title = "Singular values of a deep residual Jacobian";
  figure.subtitle = fmt::format(
      "n = {}, p = {}, σ²L = {:g}, η = {:g}, {} samples of J; all blurred by η; L1: distance from "
      "Monte Carlo",
      options.streams, options.block, options.sigma2_total, options.eta, options.samples);
  figure.columns = 3;
  for (const auto& panel : panels) {
    figure.panels.push_back(
        draw(panel.prediction, fmt::format("{}, L = {}", panel.mixer, panel.depth)));
  }
  return figure;
}

}  // namespace geores::spectral
