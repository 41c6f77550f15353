#include "geores/base/option_set.h"

#include <algorithm>

#include "geores/base/error.h"

namespace geores {

OptionSet::OptionSet(std::vector<OptionDescription> all, Read complete, Parse from_text)
    : all_(std::move(all)), complete_(std::move(complete)), from_text_(std::move(from_text)) {}

OptionSet OptionSet::of_fields(const std::function<nlohmann::json(const UseFields&)>& with_fields) {
  std::vector<OptionDescription> all;
  with_fields([&](const Fields& fields) {
    for (const auto& field : fields.all())
      all.push_back({field.key, field.help, field.default_text, field.choices});
    return nlohmann::json();
  });
  const auto complete = [with_fields](const nlohmann::json& given, const std::string& where) {
    return with_fields([&](const Fields& fields) {
      fields.read(given, where);
      return fields.write();
    });
  };
  const auto from_text = [with_fields](const std::string& key, const std::string& text,
                                       const std::string& where) {
    return with_fields([&](const Fields& fields) {
      const auto field = std::ranges::find(fields.all(), key, &Field::key);
      field->set_from_text(text, where);
      return field->to_json();
    });
  };
  return {std::move(all), complete, from_text};
}

bool OptionSet::has(const std::string& key) const {
  return std::ranges::find(all_, key, &OptionDescription::key) != all_.end();
}

std::vector<std::string> OptionSet::keys() const {
  std::vector<std::string> keys;
  for (const auto& option : all_) keys.push_back(option.key);
  return keys;
}

nlohmann::json OptionSet::complete(const nlohmann::json& given, const std::string& where) const {
  if (!given.is_null()) {
    require(given.is_object(), where, "options must be a JSON object, got {}", given.type_name());
    for (const auto& [key, value] : given.items())
      require(has(key), where, "unknown option '{}'{}", key, did_you_mean(key, keys()));
  }
  return complete_ ? complete_(given, where) : nlohmann::json::object();
}

nlohmann::json OptionSet::from_text(const std::string& key, const std::string& text,
                                    const std::string& where) const {
  require(has(key), where, "unknown option '{}'{}", key, did_you_mean(key, keys()));
  return from_text_(key, text, where);
}

OptionSet OptionSet::joined(const OptionSet& other) const {
  auto all = all_;
  for (const auto& option : other.all_) {
    require(!has(option.key), "config", "option '{}' is declared twice", option.key);
    all.push_back(option);
  }
  const auto part = [](const OptionSet& set, const nlohmann::json& given) {
    auto own = nlohmann::json::object();
    for (const auto& [key, value] : given.items())
      if (set.has(key)) own[key] = value;
    return own;
  };
  const auto a = *this, b = other;
  const auto complete = [a, b, part](const nlohmann::json& given, const std::string& where) {
    auto object = a.complete(part(a, given), where);
    object.update(b.complete(part(b, given), where));
    return object;
  };
  const auto from_text = [a, b](const std::string& key, const std::string& text,
                                const std::string& where) {
    return (a.has(key) ? a : b).from_text(key, text, where);
  };
  return {std::move(all), complete, from_text};
}

}  // namespace geores
