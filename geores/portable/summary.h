// The input of an operator's generators: the mean over the whole sequence, the running mean, or the
// position itself.
#pragma once

#include "geores/portable/arena.h"

namespace geores::portable {

class Summary {
 public:
  enum class Pool { sequence, causal, token };
  static Pool pool_from(std::string_view name);  // refuses any other word

  Summary(Pool pool, int width, Arena& arena);

  Pool pool() const { return pool_; }

  // states (positions, stride): the mean over positions 0 … to − 1, for pool = sequence.
  void look(const double* states, int stride, int to);

  // The summary at `position`, 0 first and then one after the other, of the values there.
  const double* at(int position, const double* values);

 private:
  Pool pool_;
  int width_;
  double *sum_, *mean_;
};

}  // namespace geores::portable
