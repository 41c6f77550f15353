#include "geores/model/sublayers/maps.h"

#include "geores/base/error.h"

namespace geores {

BranchMaps::BranchMaps(const SublayerOptions& options, int64_t width, int64_t inner) {
  const auto map = [&](const char* name, int64_t rows, int64_t columns) {
    if (options.maps == "normal")
      return register_parameter(name, torch::randn({rows, columns}) * options.maps_std);
    const auto start = options.maps_factor * torch::eye(rows);
    return options.maps == "identity" ? register_parameter(name, start)
                                      : register_buffer(name, start);
  };
  if (options.maps_side != "after") pre_ = map("pre", inner, width);
  if (options.maps_side != "before") post_ = map("post", width, inner);
}

std::shared_ptr<BranchMaps> make_maps(const SublayerOptions& options, int64_t width,
                                      int64_t inner) {
  require(inner == width || (options.maps == "normal" && options.maps_side == "both"),
          "transformer",
          "a branch of width {} in a connection of width {} needs maps = normal on both sides",
          inner, width);
  return options.maps == "none" ? nullptr : std::make_shared<BranchMaps>(options, width, inner);
}

void scale_start(const Folding& sublayer, const SublayerOptions& options) {
  const torch::NoGradGuard no_grad;
  sublayer.first.mul_(options.first_start);
  sublayer.last.mul_(options.last_start);
}

}  // namespace geores
