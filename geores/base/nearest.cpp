#include "geores/base/nearest.h"

#include <algorithm>
#include <cstddef>

#include "geores/base/printable.h"

namespace geores {
namespace {

std::string plain_spelling(std::string_view word) {
  std::string plain(word);
  for (char& c : plain) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return plain;
}

// Optimal string alignment distance; keeps only three rows of its table.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitution});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  const std::string wanted = plain_spelling(word);
  std::size_t allowed = std::max<std::size_t>(1, wanted.size() / 3);
  std::string best;
  for (const auto& candidate : known) {
    const auto [shorter, longer] = std::minmax({wanted.size(), candidate.size()});
    if (longer - shorter > allowed) continue;  // so a word of megabytes costs nothing
    const auto distance = edit_distance(wanted, plain_spelling(candidate));
    if (distance > allowed) continue;
    best = candidate;
    if (distance == 0) break;
    allowed = distance - 1;  // from here on only a nearer word wins
  }
  if (!best.empty() || wanted.size() < 3) return best;
  for (const auto& candidate : known)
    if (plain_spelling(candidate.substr(0, wanted.size())) == wanted) return candidate;
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const auto guess = nearest(word, known);
  return guess.empty() ? "" : ", did you mean " + quote(guess) + "?";
}

}  // namespace geores
