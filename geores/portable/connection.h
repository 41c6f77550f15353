// A trained residual connection at inference, one position at a time. A block calls, for every
// position in order, read() with the state and then, when the sublayer has answered, write():
//   additive   read: LN(x)                         write: x + y
//   edelta     read: g = G x, LN(g), x becomes g   write: g + y
//   jpmhc      read: LN(Σ_j read_j x_j)            write: H_res x + write ⊗ y
// read() may change the state; what write() needs besides is kept for each position.
// The names and options are those of geores/residual/; the tests hold each one to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "geores/portable/json.h"
#include "geores/portable/layers.h"

namespace geores::portable {

// What a page shows of an operator; NaN where a connection has none.
struct Probe {
  double gamma, beta, angle;
};

class Connection {
 public:
  virtual ~Connection() = default;

  // Called before the positions from … to − 1 are read, with all states (context, state width) so
  // far: for operators that look at a whole sequence.
  virtual void look(const double* /*states*/, int /*from*/, int /*to*/) {}
  virtual void read(int position, double* state, double* input) = 0;
  virtual void write(int position, const double* output, double* state) = 0;
  virtual Probe probe(int position) const;

  // Linear maps around the sublayer, for the model to fold into its weights; empty: none.
  virtual const Linear* before() const { return nullptr; }
  virtual const Linear* after() const { return nullptr; }
};

// What a connection is made of.
struct Place {
  const Weights& weights;
  const Json& options;  // all keys of the run's configuration
  std::string name;     // "blocks.0.attention_residual"
  int width, streams, context;

  // The option's text, or `otherwise` where the configuration does not have it.
  std::string text(std::string_view key, std::string_view otherwise) const;
  double number(std::string_view key, double otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  int count(std::string_view key, int otherwise) const;  // 0 ... 1000
};

// Refuses an unknown connection with the list of those that are here.
std::unique_ptr<Connection> make_connection(const std::string& connection, const Place& place);

// How a connection's state lies in memory, and whether it sees later positions.
struct Traits {
  int state_width = 0;     // values a position carries
  int sublayer_width = 0;  // width at which the sublayers work
  bool causal = true;
};
Traits traits_of(const std::string& connection, const Place& place);

}  // namespace geores::portable
