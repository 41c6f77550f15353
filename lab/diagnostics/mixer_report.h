// Diagnostics of the mixers H_l of a stack of hyper-connections on data: those of sHC
// (arXiv:2603.20896) and some that it lacks. H_l is the probe "operator" of connection l, a matrix
// for each token; a composite H_l ⋯ H_1 is the product of one token's matrices through the depth.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "geores/base/pages/table.h"
#include "geores/model/model.h"
#include "lab/diagnostics/mixer_measures.h"

namespace geores {

struct MeanAndDeviation {
  double mean = 0, deviation = 0;
};

struct MixerLayer {
  std::string name;                            // "block 0 attention"
  std::vector<double> row_sums, column_sums;   // of H_l: minimum, 1, 50, 99 %, maximum
  std::vector<double> row_maxima;              // 10, 50, 90 %
  double diagonal = 0;                         // share of matrices that are largest on the diagonal
  double forward_gain = 0, backward_gain = 0;  // mean over tokens
  double cosine_before = 0, cosine = 0;        // mean cosine of two streams of X, and of H_l X
  std::vector<double> mean;                    // mean H_l, row by row
  // Of H_l ⋯ H_1.
  std::vector<double> composite_row_sums, composite_column_sums;
  MeanAndDeviation composite_norm, composite_second, composite_least;  // σ₁, σ₂, σ_min
  double composite_forward_gain = 0, composite_backward_gain = 0;
  std::vector<double> composite_mean;

  nlohmann::json to_json() const;
};

struct MixerReport {
  int64_t streams = 0, matrices = 0;  // matrices: for each connection
  std::vector<MixerLayer> layers;     // in order of depth
  std::vector<double> row_maxima;     // 10, 50, 90 % over all connections and tokens
  double diagonal = 0;
  struct Third {                   // of the depth
    std::vector<int64_t> entries;  // entry_histogram
    double negative = 0;           // share of entries below 0
  };
  std::vector<Third> thirds;

  nlohmann::json to_json() const;
  std::vector<Table> tables() const;
};

struct MixerOptions {
  int64_t sequences = 64;  // at most
  int64_t positions = 16;  // of each sequence, evenly spread
};

// Nothing if the model has no mixers of two or more streams. x: as inspect() takes it.
std::optional<MixerReport> describe_mixers(Model& model, const Tensor& x,
                                           const MixerOptions& options = {});

// Whether a model uses its mixers: the loss as it is, and with every H_l replaced by the identity,
// by its mean over all tokens, and by J = 11ᵀ/n. Hyper-connections only: their branch does not
// depend on H_res, so X' + (H − H_l) X is the result with the replaced mixer.
struct MixerUse {
  double as_it_is = 0, identity = 0, mean = 0, uniform = 0;

  nlohmann::json to_json() const;
};
std::optional<MixerUse> measure_use(Model& model, const std::vector<Batch>& batches);

// Mixers that nothing trains: the largest gradient of the first and of the last mixer's static part,
// over the largest of the others', for a random cotangent of the predictions. Where streams enter
// equal, a first mixer whose rows sum to 1 has none; where they are summed at the end, neither has a
// last one whose columns do. Equal streams also make the first H_pre a mere factor, which the norm
// behind it removes up to its epsilon: `first_pre` is the same measure of all its parameters, over the
// other H_pre's; nothing where a connection has none. Measured in float64; the model's weights come
// back as they were. Needs three connections.
struct InertMixers {
  double first = 0, last = 0;
  std::optional<double> first_pre = {};
};
std::optional<InertMixers> measure_inert(Model& model, const Tensor& x);

// Effective rank over min(T, W) (MGT Eq. 8) of the states that enter the first block and after every
// block, mean over sequences: as they are, with the mean over tokens removed, and of the
// input of the model's end (equal to the first for one stream).
struct RankReport {
  int64_t windows = 0;  // means over so many
  std::vector<double> plain, centred, collapsed;

  nlohmann::json to_json() const;
  double ratio() const;  // last over first
  double slope() const;  // of ln plain against the block, least squares
};
std::optional<RankReport> describe_ranks(Model& model, const Tensor& x);

// β of each connection that has one, in order of depth.
std::vector<BetaReport> describe_betas(Model& model, const Tensor& x);

}  // namespace geores
