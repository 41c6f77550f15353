// An inspection as tables of text, for terminals and pages alike. Columns without a value are left
// out.
#pragma once

#include <string>
#include <vector>

#include "geores/diagnostics/inspection.h"

namespace geores {

struct Table {
  std::string explanation;  // what a reader should know, in a sentence or two
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> rows;  // the first cell names the row
};

std::vector<Table> tables_of(const Inspection& inspection);

// What was measured, in two lines.
std::string headline(const Inspection& inspection);

}  // namespace geores
