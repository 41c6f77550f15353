// Mixers that come from outside: one matrix in a file, or the measured ones of a trained model.
//
// One matrix: .npy with a 2-d array of F64 or F32, or text: one row per line, numbers separated by
// spaces, tabs or commas, # starts a comment.
//
// A run folder: `mixers.safetensors`, written when a trained model is measured, holds
//   mixer/000, mixer/001, …   (n, n) F64, one per residual operator in order of depth: the mean
//                             of its mixing matrix over the validation data
//   sigma2                    optional, (L) F64: branch variance σ_l² of each operator
//   jacobian                  optional, any shape, F64: singular values measured on the model
// Errors are one line that names the file:
//   [a.txt] a mixer must be square, got 4 x 3
//   [runs/a/mixers.safetensors] tensor 'mixer/001' must be (4, 4), got (3, 3)
#pragma once

#include <Eigen/Core>
#include <filesystem>
#include <vector>

namespace geores::spectral {

Eigen::MatrixXd load_mixer(const std::filesystem::path& path);

struct RunMixers {
  std::vector<Eigen::MatrixXd> mixers;
  std::vector<double> sigma2;    // empty when the file has none
  std::vector<double> jacobian;  // empty when the file has none
};
RunMixers load_run_mixers(const std::filesystem::path& run);

}  // namespace geores::spectral
