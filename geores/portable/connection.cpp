#include "geores/portable/connection.h"

#include <cmath>

#include "geores/base/refusal.h"
#include "geores/portable/edelta.h"

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

std::unique_ptr<Connection> make_connection(const std::string& connection, const Place& place) {
  if (connection == "additive") return std::make_unique<Additive>(place);
  if (connection == "edelta") return std::make_unique<Edelta>(place);
  refuse("model", "connection {} has no live predictions here: additive and edelta have",
         quote(connection));
}

Traits traits_of(const std::string& connection, const Place& place) {
  Traits traits{place.width, place.width, true};
  if (connection == "edelta") traits.causal = place.text("pool", "sequence") != "sequence";
  return traits;
}

}  // namespace geores::portable
