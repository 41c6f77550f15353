#include "geores/portable/connection.h"

#include <cmath>

#include "geores/portable/kinds.h"
#include "geores/portable/streams.h"

namespace geores::portable {
namespace {

// x + F(LN(x)), or LN(x + F(x)).
class Additive final : public Added {
 public:
  explicit Additive(const ConnectionSource& source)
      : Added(source), pre_norm_(source.text("norm", "pre") == "pre") {
    refuse_unless(source.number("branch_power", 0) == 0, "model",
                  "live predictions lack branch_power");
  }

  void read(int position, double* state, double* input) override {
    if (pre_norm_) return Added::read(position, state, input);
    for (int i = 0; i < norm_.width; ++i) input[i] = state[i];
  }

  void write(int position, const double* output, double* state) override {
    Added::write(position, output, state);
    if (!pre_norm_) norm_.apply(state, state);
  }

 private:
  bool pre_norm_;
};

Connection* make_additive(const ConnectionSource& source) {
  return source.arena.make<Additive>(source);
}

enum class Layout {
  whole,   // one stream of the full width
  split,   // the width is cut into n streams; the sublayers see all of it
  stream,  // the same, and the sublayers work at the width of one stream
  expand   // n streams of the full width each
};

struct Kind {
  std::string_view name;
  Connection* (*make)(const ConnectionSource&);
  Layout layout;
  int fewest = 1;             // streams
  const char* pool = "none";  // default of the option pool; "sequence" is not causal
};

constexpr Kind kKinds[] = {
    {"additive", make_additive, Layout::whole},
    {"ddl", make_ddl, Layout::expand},
    {"ddl_pooled", make_ddl_pooled, Layout::whole, 1, "sequence"},
    {"edelta", make_edelta, Layout::split, 1, "sequence"},
    {"edelta_stream", make_edelta_stream, Layout::stream, 1, "sequence"},
    {"hc", make_hc, Layout::expand},
    {"isometry", make_isometry, Layout::split, 2, "causal"},
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
  char known[200];
  int length = 0;
  for (const auto& kind : kKinds)
    for (const auto part : {length > 0 ? std::string_view(", ") : "", kind.name})
      for (const char c : part) known[length++] = c;
  refuse("model", "connection {} has no live predictions here: {} have",
         {quoted(name), std::string_view(known, static_cast<std::size_t>(length))});
}

}  // namespace

Probe Connection::probe(int) const { return {NAN, NAN, NAN}; }

const Json* ConnectionSource::find(const char* key, Json::Kind kind, const char* what) const {
  const auto* value = options.find(key);
  refuse_unless(value == nullptr || value->kind() == kind, "config", "{} must be {}",
                {quoted(key), what});
  return value;
}

std::string_view ConnectionSource::text(const char* key, const char* otherwise) const {
  const auto* value = find(key, Json::Kind::string, "text");
  if (value) return value->string();
  return otherwise;
}

double ConnectionSource::number(const char* key, double otherwise) const {
  const auto* value = find(key, Json::Kind::number, "a number");
  return value ? value->number() : otherwise;
}

bool ConnectionSource::flag(const char* key, bool otherwise) const {
  const auto* value = find(key, Json::Kind::boolean, "true or false");
  return value ? value->boolean() : otherwise;
}

int ConnectionSource::count(const char* key, int otherwise) const {
  const double value = number(key, otherwise);
  refuse_unless(value >= 0 && value <= 1000 && value == std::floor(value), "config",
                "{} must be a whole number 0 ... 1000, got {}", {quoted(key), value});
  return static_cast<int>(value);
}

Connection* make_connection(std::string_view connection, const ConnectionSource& source) {
  return kind_named(connection).make(source);
}

Traits traits_of(std::string_view connection, const ConnectionSource& source) {
  const auto& kind = kind_named(connection);
  const int n = source.streams;
  Traits traits{source.width, source.width,
                std::string_view(kind.pool) == "none" ||
                    source.text("pool", kind.pool) != "sequence" ||
                    source.text("operator", "") == "identity"};
  if (kind.layout == Layout::whole) return traits;
  refuse_unless(n >= kind.fewest && n <= kMostStreams, "model",
                "{} of {} streams: live predictions have {} ... {}",
                {connection, n, kind.fewest, kMostStreams});
  if (kind.layout == Layout::expand) {
    traits.state_width = n * source.width;
    return traits;
  }
  refuse_unless(source.width % n == 0, "model", "{} streams do not divide width {}",
                {n, source.width});
  if (kind.layout == Layout::stream) traits.sublayer_width = source.width / n;
  return traits;
}

}  // namespace geores::portable
