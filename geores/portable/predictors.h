// Predictors of the next state without a model. x (length, width), y the same shape: y_t from
// x_0 … x_t.
//   zero          0
//   copy          x_t
//   running mean  (x_0 + … + x_t)/(t + 1)
//   two-state     the two coordinates that changed most between x_{t−1} and x_t turn on by the
//   angle
//                 by which they just turned: exact for a rotation in a plane of two axes from the
//                 second state on; x_0 for the first
#pragma once

#include <array>
#include <string_view>

namespace geores::portable {

enum class Rule { zero, copy, running_mean, two_state };
inline constexpr std::array<std::string_view, 4> kRuleNames = {"zero", "copy", "running mean",
                                                               "two-state rule"};

// One position; x has position + 1 rows.
void predict_next(Rule rule, const double* x, int position, int width, double* y);

}  // namespace geores::portable
