// The weights that the explorer ships are as good as they say.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "geores/base/file.h"
#include "geores/base/formats/safetensors.h"
#include "web/wasm/gyroscope.h"

namespace geores {
namespace {

const std::filesystem::path kModels = GEORES_MODELS_DIR;

class PageModel : public testing::TestWithParam<const char*> {};

TEST_P(PageModel, HasTheErrorThatItsMetadataStates) {
  const auto bytes = read_file(kModels / (std::string(GetParam()) + ".safetensors"));
  const portable::Weights weights(bytes, GetParam());
  portable::Model model(weights,
                        portable::JsonDocument(weights.metadata("config"), "config").root());
  const double stated = std::stod(std::string(weights.metadata("mse")));
  EXPECT_TRUE(model.causal());
  EXPECT_NEAR(web::gyroscope_error(model), stated, 1e-5 * stated);
  EXPECT_LT(stated, 3e-3) << "the running mean has 8.9e-3";
}

INSTANTIATE_TEST_SUITE_P(Models, PageModel, testing::Values("edelta", "gpt"));

TEST(PageModels, FitTheirBudget) {
  std::uintmax_t bytes = 0;
  for (const char* name : {"edelta", "gpt"})
    bytes += std::filesystem::file_size(kModels / (std::string(name) + ".safetensors"));
  EXPECT_LT(bytes, 400'000u);
}

}  // namespace
}  // namespace geores
