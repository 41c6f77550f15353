#include "geores/base/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "geores/base/error.h"

namespace geores {
namespace {

template <class T>
struct TypeName;
template <>
struct TypeName<bool> {
  static constexpr const char* name = "bool";
  static constexpr const char* words = "true or false";
};
template <>
struct TypeName<int64_t> {
  static constexpr const char* name = "integer";
  static constexpr const char* words = "a 64-bit integer";
};
template <>
struct TypeName<double> {
  static constexpr const char* name = "number";
  static constexpr const char* words = "a finite number";
};
template <>
struct TypeName<std::string> {
  static constexpr const char* name = "text";
  static constexpr const char* words = "UTF-8 text";
};

template <class T>
std::optional<T> parse_as(const nlohmann::json& json) {
  if constexpr (std::is_same_v<T, bool>) {
    if (json.is_boolean()) return json.get<bool>();
  } else if constexpr (std::is_same_v<T, int64_t>) {
    const bool fits = json.is_number_unsigned() ? std::in_range<int64_t>(json.get<uint64_t>())
                                                : json.is_number_integer();
    if (fits) return json.get<int64_t>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (json.is_number() && std::isfinite(json.get<double>())) return json.get<double>();
  } else {
    if (json.is_string() && is_utf8(json.get_ref<const std::string&>())) return json.get<T>();
  }
  return std::nullopt;
}

template <class T>
std::optional<T> parse_as(std::string_view text) {
  if constexpr (std::is_same_v<T, bool>) {
    if (text == "true") return true;
    if (text == "false") return false;
    return std::nullopt;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return is_utf8(text) ? std::optional<T>(text) : std::nullopt;
  } else {
    T number{};
    const auto end = text.data() + text.size();
    const auto [stopped, problem] = std::from_chars(text.data(), end, number);
    const bool whole = problem == std::errc() && stopped == end;
    return whole && std::isfinite(static_cast<double>(number)) ? std::optional<T>(number)
                                                               : std::nullopt;
  }
}

std::string shown(std::string_view text) { return quote(text); }

std::string shown(const nlohmann::json& json) {
  if (json.is_number_float() && !std::isfinite(json.get<double>())) {
    return fmt::format("{}", json.get<double>());
  }
  return printable(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 80);
}

std::string shown(const Range& range) {
  if (range.max == Range{}.max) return fmt::format(">= {}", range.min);
  if (range.min == Range{}.min) return fmt::format("<= {}", range.max);
  return fmt::format("between {} and {}", range.min, range.max);
}

}  // namespace

Field::Field(std::string key_, Target target, std::string help_, Range range_,
             std::vector<std::string> choices_)
    : key(std::move(key_)),
      help(std::move(help_)),
      choices(std::move(choices_)),
      range(range_),
      target_(target) {
  type = std::visit(
      [](auto* value) { return TypeName<std::remove_pointer_t<decltype(value)>>::name; }, target_);
  default_text = value_text();
}

std::string Field::value_text() const {
  return std::visit([](auto* value) { return fmt::format("{}", *value); }, target_);
}

void Field::set_from_text(std::string_view text, std::string_view where) const {
  assign(convert(text, where));
}

Field::Value Field::from_json(const nlohmann::json& json, std::string_view where) const {
  return convert(json, where);
}

nlohmann::json Field::to_json() const {
  return std::visit(
      [&](auto* value) {
        nlohmann::json json = *value;
        using T = std::remove_pointer_t<decltype(value)>;
        require(parse_as<T>(json).has_value(), "config", "'{}' must be {} to be written, got {}",
                key, TypeName<T>::words, shown(json));
        return json;
      },
      target_);
}

void Field::assign(Value value) const {
  std::visit(
      [&](auto* target) {
        *target = std::get<std::remove_pointer_t<decltype(target)>>(std::move(value));
      },
      target_);
}

template <class Source>
Field::Value Field::convert(const Source& source, std::string_view where) const {
  auto value = std::visit(
      [&](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        auto parsed = parse_as<T>(source);
        require(parsed.has_value(), where, "'{}' must be {}, got {}", key, TypeName<T>::words,
                shown(source));
        return Value(std::move(*parsed));
      },
      target_);
  check(value, where);
  return value;
}

void Field::check(const Value& value, std::string_view where) const {
  const auto check_range = [&](auto number) {
    const auto real = static_cast<double>(number);
    require(range.min <= real && real <= range.max, where, "'{}' must be {}, got {}", key,
            shown(range), number);
  };
  if (const auto* integer = std::get_if<int64_t>(&value)) check_range(*integer);
  if (const auto* real = std::get_if<double>(&value)) check_range(*real);
  if (const auto* text = std::get_if<std::string>(&value); text && !choices.empty()) {
    if (std::ranges::find(choices, *text) != choices.end()) return;
    fail(where, "'{}' must be one of {}; got {}{}", key, fmt::join(choices, ", "), quote(*text),
         did_you_mean(*text, choices));
  }
}

Fields& Fields::add(std::string key, bool& value, std::string help) {
  return add_field(Field(std::move(key), &value, std::move(help), {}, {}));
}

Fields& Fields::add(std::string key, int64_t& value, std::string help, Range range) {
  return add_field(Field(std::move(key), &value, std::move(help), range, {}));
}

Fields& Fields::add(std::string key, double& value, std::string help, Range range) {
  return add_field(Field(std::move(key), &value, std::move(help), range, {}));
}

Fields& Fields::add(std::string key, std::string& value, std::string help) {
  return add_field(Field(std::move(key), &value, std::move(help), {}, {}));
}

Fields& Fields::choice(std::string key, std::string& value, std::vector<std::string> allowed,
                       std::string help) {
  require(!allowed.empty(), "config", "option '{}' has no choices", key);
  return add_field(Field(std::move(key), &value, std::move(help), {}, std::move(allowed)));
}

Fields& Fields::add_field(Field field) {
  for (const auto& other : fields_) {
    require(other.key != field.key, "config", "option '{}' is declared twice", field.key);
  }
  fields_.push_back(std::move(field));
  return *this;
}

Fields& Fields::add_all(const Fields& others) {
  for (const Field& field : others.fields_) add_field(field);
  return *this;
}

void Fields::read(const nlohmann::json& object, std::string_view where) const {
  if (object.is_null()) return;
  require(object.is_object(), where, "options must be a JSON object, got {}", shown(object));

  std::vector<std::pair<const Field*, Field::Value>> changes;
  for (const auto& [key, value] : object.items()) {
    const auto field = std::ranges::find(fields_, key, &Field::key);
    if (field == fields_.end()) {
      std::vector<std::string> known;
      for (const auto& each : fields_) known.push_back(each.key);
      fail(where, "unknown option {}{}", quote(key), did_you_mean(key, known));
    }
    changes.emplace_back(&*field, field->from_json(value, where));
  }
  for (auto& [field, value] : changes) field->assign(std::move(value));
}

nlohmann::json Fields::write() const {
  auto object = nlohmann::json::object();
  for (const auto& field : fields_) object[field.key] = field.to_json();
  return object;
}

std::string flag_name(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

}  // namespace geores
