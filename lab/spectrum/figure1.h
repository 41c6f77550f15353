// Figure 1 of JPmHC (arXiv:2602.18308) with the right curves: spectra of J at depth 1, 2 and 10 for
// four mixers (identity, bistochastic, orthogonal, Gaussian), n = 4, p = 25, σ²L = 0.05, η = 0.02,
// 500 samples. One mixer is drawn per row and used in all layers of the row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/spectrum/prediction.h"

namespace geores::spectral {

struct Figure1Options {
  int streams = 4, block = 25, samples = 500;
  double sigma2_total = 0.05, eta = 0.02;
  std::uint64_t seed = 1;
  int threads = 0;
};

struct Figure1Panel {
  std::string mixer;
  int depth = 0;
  Prediction prediction;
};

std::vector<Figure1Panel> compute_figure1(const Figure1Options& options);
svg::Figure draw_figure1(const std::vector<Figure1Panel>& panels, const Figure1Options& options);

}  // namespace geores::spectral
