// The effect of a recursive model's mixers on the streams of a token in one pass over a puzzle, call by
// call: the same few layers are called again and again, and JPmHC's claim is about the product of all
// their H_res.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "geores/model/model.h"

namespace geores {

// In the order of calls, h_cycles · (l_cycles + 1) · 2 · layers of them; means over tokens.
struct RecursionReport {
  std::vector<double> norm;     // ‖H_res‖₂
  std::vector<double> product;  // second singular value of the product of all H_res so far
  std::vector<double> gate;     // EΔ's γ; empty without one

  nlohmann::json to_json() const;
};

// In the last pass over the puzzles x, as Model::predict takes them. Nothing without a mixer, or for one
// that does not mix streams.
std::optional<RecursionReport> describe_recursion(Model& model, const Tensor& x);

}  // namespace geores
