// A page that shows puzzles, predictions and how an answer forms over the steps of a recursive
// model: one self-contained HTML text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "geores/puzzles/dataset.h"

namespace geores::puzzles {

// One row of a data set and a model's answer.
struct Solving {
  std::string title;
  std::vector<int32_t> input = {}, label = {};   // tokens, as in a Batch
  std::vector<std::vector<int32_t>> steps = {};  // tokens after each ACT step; may be empty
  std::vector<double> q_halt = {};               // logit of each step
  std::vector<Pair> demonstrations = {};         // ARC; may be empty
};

std::string page_of(const DatasetInfo& info, const std::string& title,
                    std::span<const Solving> solvings);

}  // namespace geores::puzzles
