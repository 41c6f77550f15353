// Options that are read from JSON, written to JSON and set by command-line flags under one name.
//
//   struct EdeltaOptions {
//     int64_t streams = 4;
//     double gate_bias = 2.0;
//     std::string pooling = "mean";
//     Fields fields() {
//       return Fields()
//           .add("streams", streams, "residual streams", {.min = 1})
//           .add("gate_bias", gate_bias, "initial gate logit")
//           .choice("pooling", pooling, {"mean", "last"}, "input of the generators");
//     }
//   };
//   EdeltaOptions options;
//   options.fields().read(parse_json(text, "edelta"), "edelta");
//   for (const Field& field : options.fields().all()) flag(flag_name(field.key), field.help, ...);
//
// Reading is strict and all or nothing: on any error no option is changed. Refused, in one line:
//   [edelta] unknown option 'gatebias', did you mean 'gate_bias'?
//   [edelta] 'streams' must be a 64-bit integer, got "four"      (4.0, 1e30 and 2^63 as well)
//   [edelta] 'streams' must be >= 1, got 0
//   [edelta] 'pooling' must be one of mean, last; got 'maen', did you mean 'mean'?
// A number option takes a JSON integer; NaN and infinities are refused everywhere.
//
// Fields holds pointers to the options: it must not outlive the struct it was made from, and a copy
// of the struct needs Fields of its own.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "geores/base/json.h"
#include "geores/base/nearest.h"

namespace geores {

// Both ends are part of the range.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = +std::numeric_limits<double>::infinity();
};

// One option: its description and the variable behind it.
class Field {
 public:
  using Value = std::variant<bool, int64_t, double, std::string>;
  using Target = std::variant<bool*, int64_t*, double*, std::string*>;

  Field(std::string key, Target target, std::string help, Range range,
        std::vector<std::string> choices);

  std::string key;  // as in JSON: gate_bias
  std::string help;
  std::string type;                  // "bool", "integer", "number" or "text"
  std::vector<std::string> choices;  // empty: any text
  Range range;
  std::string default_text;  // value_text() at the time the field was added

  // The value in the form that set_from_text() takes; a number keeps every bit.
  std::string value_text() const;

  // bool: true or false. Numbers: the whole text, decimal, no blanks and no leading '+'.
  void set_from_text(std::string_view text, std::string_view where) const;

  // Throws Error if the value cannot be stored as JSON: NaN, infinite, or not UTF-8.
  nlohmann::json to_json() const;

  // The value after all checks; nothing is assigned yet.
  Value from_json(const nlohmann::json& json, std::string_view where) const;
  void assign(Value value) const;

 private:
  template <class Source>
  Value convert(const Source& source, std::string_view where) const;
  void check(const Value& value, std::string_view where) const;

  Target target_;
};

class Fields {
 public:
  Fields& add(std::string key, bool& value, std::string help);
  Fields& add(std::string key, int64_t& value, std::string help, Range range = {});
  Fields& add(std::string key, double& value, std::string help, Range range = {});
  Fields& add(std::string key, std::string& value, std::string help);
  Fields& choice(std::string key, std::string& value, std::vector<std::string> allowed,
                 std::string help);

  // Adds all options of another struct, which must outlive this object.
  Fields& add_all(const Fields& others);

  // Options that the object does not name keep their values; null counts as the empty object.
  void read(const nlohmann::json& object, std::string_view where) const;

  // The current values.
  nlohmann::json write() const;

  const std::vector<Field>& all() const { return fields_; }

 private:
  Fields& add_field(Field field);

  std::vector<Field> fields_;
};

// gate_bias -> --gate-bias
std::string flag_name(std::string_view key);

}  // namespace geores
