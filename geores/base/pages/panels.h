// The panels of a figure as drawings of their own, which a page puts into as many columns as fit. Each has
// the colours of the whole figure, and its own legend.
#pragma once

#include <string>
#include <vector>

#include "geores/base/pages/svg.h"

namespace geores::svg {

std::vector<Figure> panels_of(const Figure& figure);

}  // namespace geores::svg
