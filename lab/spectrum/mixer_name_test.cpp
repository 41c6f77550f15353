#include "lab/spectrum/mixer_name.h"

#include <gtest/gtest.h>

#include <string>

#include "geores/testing/testing.h"

namespace geores::spectral {
namespace {

TEST(MixerName, EveryNameDrawsItsOwnMixer) {
  for (const auto& entry : mixer_names()) {
    EXPECT_EQ(make_mixer(std::string(entry.name), 4, 1, 2), draw_mixer(entry.mixer, 4, 1, 2))
        << entry.name;
  }
  EXPECT_EQ(make_mixer("cayley:7", 4, 1), draw_mixer(Mixer::cayley, 4, 1, 0, 7));
}

TEST(MixerName, BadNamesAndSizesAreRefusedInOneLine) {
  EXPECT_EQ(refusal([] { make_mixer("orthogonl", 4, 1); }),
            "[mixer] unknown mixer 'orthogonl', did you mean 'orthogonal'?");
  EXPECT_EQ(refusal([] { make_mixer("identity", 0, 1); }), "[mixer] streams must be >= 1, got 0");
  EXPECT_EQ(refusal([] { make_mixer("cayley:-1", 4, 1); }),
            "[mixer] cayley:s needs a number of steps 0 ... 1000, got 'cayley:-1'");
  EXPECT_NE(refusal([] { make_mixer("cayley:", 4, 1); }), "");
  EXPECT_NE(refusal([] { make_mixer("cayley:2x", 4, 1); }), "");
}

}  // namespace
}  // namespace geores::spectral
