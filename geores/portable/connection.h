// A trained residual connection at inference, one position at a time. A block calls, for every
// position in order, read() with the state and then, when the sublayer has answered, write():
//   additive   read: LN(x)                         write: x + y
//   edelta     read: g = G x, LN(g), x becomes g   write: g + y
//   jpmhc      read: LN(Σ_j read_j x_j)            write: H_res x + write ⊗ y
// read() may change the state; what write() needs besides is kept for each position.
// The names and options are those of geores/residual/; the tests hold each one to it.
#pragma once

#include "geores/portable/json.h"
#include "geores/portable/layers.h"

namespace geores::portable {

// The values of an operator on a page; NaN where a connection has none.
struct Probe {
  double gamma, beta, angle;
};

class Connection {
 public:
  // Called before the positions from … to − 1 are read, with all states (context, state width) so
  // far: for operators that look at a whole sequence.
  virtual void look(const double* /*states*/, int /*from*/, int /*to*/) {}
  virtual void read(int position, double* state, double* input) = 0;
  virtual void write(int position, const double* output, double* state) = 0;
  virtual Probe probe(int position) const;

  // Linear maps around the sublayer, for the model to fold into its weights; empty: none.
  virtual const Linear* before() const { return nullptr; }
  virtual const Linear* after() const { return nullptr; }

 protected:
  ~Connection() = default;
};

// The weights, options and shape of a connection.
struct ConnectionSource : Source {
  const Json& options;  // all keys of the run's configuration
  Name name;            // "blocks.0.attention_residual"
  int width, streams, context;

  // The option's text, or `otherwise` where the configuration does not have it.
  std::string_view text(const char* key, const char* otherwise) const;
  double number(const char* key, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  int count(const char* key, int otherwise) const;  // 0 ... 1000

 private:
  const Json* find(const char* key, Json::Kind kind, const char* what) const;
};

// A connection whose sublayer reads LN(x), and whose output is added to x. carry() transforms the state
// before both.
class Added : public Connection {
 public:
  void read(int position, double* state, double* input) override {
    carry(position, state);
    norm_.apply(state, input);
  }
  void write(int, const double* output, double* state) override {
    for (int i = 0; i < norm_.width; ++i) state[i] += output[i];
  }

 protected:
  explicit Added(const ConnectionSource& source)
      : norm_(LayerNorm::read(source, source.name + ".norm", source.width, false)) {}
  virtual void carry(int /*position*/, double* /*state*/) {}

  LayerNorm norm_;
};

// Refuses an unknown connection with the list of those that are here.
Connection* make_connection(std::string_view connection, const ConnectionSource& source);

// The layout of a connection's state, and whether it is causal.
struct Traits {
  int state_width = 0;     // values a position carries
  int sublayer_width = 0;  // width at which the sublayers work
  bool causal = true;
};
Traits traits_of(std::string_view connection, const ConnectionSource& source);

}  // namespace geores::portable
