// What `geores bench` measures: flags, and the models that they name.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/model/transformer/transformer.h"

namespace geores::cli {

struct BenchFlags {
  std::vector<std::string> models;
  int64_t batch = 0, length = 0, repeats = 3, layers = 0, width = 0, heads = 0, streams = 4,
          vocabulary = 0, replays = 200;  // 0: as the papers have it, or as a language model has
  int side_by_side = 0;
  bool json = false, scaling = false, explain = false, text = false, alone = false;
  std::string device = "cpu", precision;

  // Fills in batch and length, and for text all sizes: those at which the public code was measured.
  void complete();
};

struct BenchSize {
  std::string connection;
  int64_t layers, width;
  std::string label = connection;
  nlohmann::json options = nullptr;
};

// Refuses an unknown name.
std::vector<BenchSize> wanted_sizes(const BenchFlags& flags);

TransformerConfig config_of(const BenchSize& size, const BenchFlags& flags);

}  // namespace geores::cli
