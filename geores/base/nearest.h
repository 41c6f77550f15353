// "did you mean ...?": the known word closest to a misspelt one.
//   nearest("gatebias", {"gate_bias", "streams"})  ->  "gate_bias"
//   did_you_mean("gatebias", known)                ->  ", did you mean 'gate_bias'?"
// The distance counts insertions, deletions, substitutions and swaps of neighbours; upper case
// counts as lower case and '-' as '_'. A word is near enough with at most one edit per three
// letters, and one edit is always allowed. If no word is near enough, a name that begins with the
// misspelt word (at least three letters) is taken.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace geores {

// "" if no word is near enough; the first of several equally near words.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// The end of an error line; "" if no word is near enough.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace geores
