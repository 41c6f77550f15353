// "did you mean ...?": the known word closest to a misspelt one.
//   nearest("gatebias", {"gate_bias", "streams"})  ->  "gate_bias"
//   did_you_mean("gatebias", known)                ->  ", did you mean 'gate_bias'?"
// Distance: insertions, deletions, substitutions and swaps of neighbours, with upper case read as
// lower case and '-' as '_'. Near enough: at most one edit per three letters, and one in any
// case; failing that, a name that begins with the word (three letters at least).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace geores {

// "" if nothing is near enough; the first of several equally near ones.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// The tail of an error line; "" if nothing is near enough.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace geores
