// An inspection as tables of text, for terminals and pages alike. Columns without a value are left
// out.
#pragma once

#include <string>
#include <vector>

#include "geores/base/pages/table.h"
#include "lab/diagnostics/inspection.h"

namespace geores {

std::vector<Table> tables_of(const Inspection& inspection);

// The model and the measured data, in two lines.
std::string headline(const Inspection& inspection);

}  // namespace geores
