#include "lab/spectrum/mixer_name.h"

#include <charconv>
#include <system_error>

#include "geores/base/error.h"
#include "geores/base/nearest.h"
#include "geores/base/printable.h"

namespace geores::spectral {
namespace {

int steps_after_colon(const std::string& name, std::size_t colon) {
  int steps = 0;
  const char* begin = name.data() + colon + 1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, steps);
  require(error == std::errc() && stop == end && steps >= 0 && steps <= 1000, "mixer",
          "cayley:s needs a number of steps 0 ... 1000, got {}", quote(name));
  return steps;
}

}  // namespace

const std::vector<MixerName>& mixer_names() {
  static const std::vector<MixerName> names = {
      {"identity", "the plain residual connection", Mixer::identity},
      {"bistochastic", "Sinkhorn of Gaussian logits (mHC)", Mixer::bistochastic},
      {"orthogonal", "Haar orthogonal", Mixer::orthogonal},
      {"cayley", "iterated Cayley map; cayley:3 takes 3 steps (JPmHC)", Mixer::cayley},
      {"grassmann", "projector onto a random half space (JPmHC)", Mixer::grassmann},
      {"permutation", "softmax mixture of 6 permutations (JPmHC)", Mixer::permutation},
      {"shc", "spectral sphere: row and column sums 1, norm 1 (sHC)", Mixer::shc},
      {"gaussian", "i.i.d. N(0, 1/n), unconstrained", Mixer::gaussian},
  };
  return names;
}

Eigen::MatrixXd make_mixer(const std::string& name, int streams, std::uint64_t seed, int layer) {
  std::vector<std::string> known;
  for (const auto& entry : mixer_names()) {
    if (name == entry.name) return draw_mixer(entry.mixer, streams, seed, layer);
    known.emplace_back(entry.name);
  }
  if (name.starts_with("cayley:"))
    return draw_mixer(Mixer::cayley, streams, seed, layer, steps_after_colon(name, 6));
  fail("mixer", "unknown mixer {}{}", quote(name), did_you_mean(name, known));
}

}  // namespace geores::spectral
