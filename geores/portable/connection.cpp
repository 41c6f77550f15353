#include "geores/portable/connection.h"

#include <cmath>

#include "geores/base/refusal.h"
#include "geores/portable/delta.h"
#include "geores/portable/edelta.h"
#include "geores/portable/routed.h"

namespace geores::portable {
namespace {

// x + F(LN(x)), or LN(x + F(x)).
class Additive final : public Connection {
 public:
  explicit Additive(const Place& place)
      : width_(place.width),
        pre_norm_(place.text("norm", "pre") == "pre"),
        norm_(LayerNorm::read(place.weights, place.name + ".norm", width_, false)) {}

  void read(int, double* state, double* input) override {
    if (pre_norm_) {
      norm_.apply(state, input);
    } else {
      for (int i = 0; i < width_; ++i) input[i] = state[i];
    }
  }

  void write(int, const double* output, double* state) override {
    for (int i = 0; i < width_; ++i) state[i] += output[i];
    if (!pre_norm_) norm_.apply(state, state);
  }

 private:
  int width_;
  bool pre_norm_;
  LayerNorm norm_;
};

template <class Made>
std::unique_ptr<Connection> make(const Place& place) {
  return std::make_unique<Made>(place);
}

enum class Layout {
  whole,   // one stream of the full width
  split,   // the width is cut into n streams; the sublayers see all of it
  stream,  // the same, and the sublayers work at the width of one stream
  expand   // n streams of the full width each
};

struct Kind {
  std::string_view name;
  std::unique_ptr<Connection> (*make)(const Place&);
  Layout layout;
  int fewest = 1;      // streams
  bool pools = false;  // not causal where the option pool is "sequence", its default
};

constexpr Kind kKinds[] = {
    {"additive", make<Additive>, Layout::whole},
    {"ddl", make_ddl, Layout::expand},
    {"ddl_pooled", make_ddl_pooled, Layout::whole, 1, true},
    {"edelta", make<Edelta>, Layout::split, 1, true},
    {"edelta_stream", make_edelta_stream, Layout::stream, 1, true},
    {"hc", make_hc, Layout::expand},
    {"jpmhc", make_jpmhc, Layout::stream},
    {"mgt", make_mgt, Layout::whole},
    {"mhc", make_mhc, Layout::expand},
    {"mhc_lite", make_mhc_lite, Layout::expand},
    {"mhc_split", make_mhc_split, Layout::split},
    {"shc", make_shc, Layout::expand, 2},
};

const Kind& kind_named(std::string_view name) {
  for (const auto& kind : kKinds)
    if (kind.name == name) return kind;
  std::string known;
  for (const auto& kind : kKinds) known += (known.empty() ? "" : ", ") + std::string(kind.name);
  refuse("model", "connection {} has no live predictions here: {} have", quote(name), known);
}

}  // namespace

Probe Connection::probe(int) const { return {NAN, NAN, NAN}; }

std::string Place::text(std::string_view key, std::string_view otherwise) const {
  const auto* value = options.find(key);
  if (value == nullptr) return std::string(otherwise);
  refuse_unless(value->kind() == Json::Kind::string, "config", "{} must be text", quote(key));
  return value->string();
}

double Place::number(std::string_view key, double otherwise) const {
  const auto* value = options.find(key);
  if (value == nullptr) return otherwise;
  refuse_unless(value->kind() == Json::Kind::number, "config", "{} must be a number", quote(key));
  return value->number();
}

bool Place::flag(std::string_view key, bool otherwise) const {
  const auto* value = options.find(key);
  if (value == nullptr) return otherwise;
  refuse_unless(value->kind() == Json::Kind::boolean, "config", "{} must be true or false",
                quote(key));
  return value->boolean();
}

int Place::count(std::string_view key, int otherwise) const {
  const double value = number(key, otherwise);
  refuse_unless(value >= 0 && value <= 1000 && value == std::floor(value), "config",
                "{} must be a whole number 0 ... 1000, got {}", quote(key), value);
  return static_cast<int>(value);
}

std::unique_ptr<Connection> make_connection(const std::string& connection, const Place& place) {
  return kind_named(connection).make(place);
}

Traits traits_of(const std::string& connection, const Place& place) {
  const auto& kind = kind_named(connection);
  const int n = place.streams;
  Traits traits{place.width, place.width,
                !kind.pools || place.text("pool", "sequence") != "sequence" ||
                    place.text("operator", "") == "identity"};
  if (kind.layout == Layout::whole) return traits;
  refuse_unless(n >= kind.fewest && n <= kMostStreams, "model",
                "{} of {} streams: live predictions have {} ... {}", connection, n, kind.fewest,
                kMostStreams);
  if (kind.layout == Layout::expand) {
    traits.state_width = n * place.width;
    return traits;
  }
  refuse_unless(place.width % n == 0, "model", "{} streams do not divide width {}", n, place.width);
  if (kind.layout == Layout::stream) traits.sublayer_width = place.width / n;
  return traits;
}

}  // namespace geores::portable
