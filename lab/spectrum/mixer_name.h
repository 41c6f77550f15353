// The mixers of spectral/mixer.h by name, as `geores spectrum --mixer` takes them. `cayley:s` takes
// s steps.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "geores/spectral/mixer.h"

namespace geores::spectral {

struct MixerName {
  std::string_view name;
  std::string_view summary;
  Mixer mixer;
};
const std::vector<MixerName>& mixer_names();

// Throws geores::Error for an unknown name (with the nearest known one) and for streams < 1.
Eigen::MatrixXd make_mixer(const std::string& name, int streams, std::uint64_t seed, int layer = 0);

}  // namespace geores::spectral
