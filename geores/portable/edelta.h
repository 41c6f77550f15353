// EΔ-MHC-Geo at inference; see residual/edelta/edelta.h. All operators, pools and gates.
#pragma once

#include "geores/portable/connection.h"
#include "geores/portable/streams.h"
#include "geores/portable/summary.h"

namespace geores::portable {

class Edelta final : public Connection {
 public:
  explicit Edelta(const Place& place);
  void look(const double* states, int from, int to) override;
  void read(int position, double* state, double* input) override;
  void write(int position, const double* output, double* state) override;
  Probe probe(int position) const override { return probes_[position]; }
  const Linear* before() const override { return before_.rows > 0 ? &before_ : nullptr; }
  const Linear* after() const override { return after_.rows > 0 ? &after_ : nullptr; }

 private:
  using Generators = manifold::HybridGenerators<double, kMostStreams>;

  double entropy(const double* state) const;
  Generators generators(int position, const double* state);

  int width_, streams_;
  bool rotates_, reflects_, entropy_gate_;
  Summary summary_, entropy_summary_;
  LayerNorm norm_;
  Perceptron u_, v_, beta_, k_;
  Linear gate_, before_, after_;
  std::vector<double> room_, mixed_, entropies_;
  std::vector<Probe> probes_;
};

}  // namespace geores::portable
