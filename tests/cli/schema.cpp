// tests/cli/schema.cpp: a small validator of JSON against a schema.
#include "tests/cli/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace tw::test {
namespace {

using nlohmann::json;

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  return type == "number" && value.is_number();
}

std::string object_mismatch(const json& schema, const json& value, const std::string& path) {
  for (const auto& key : schema.value("required", json::array()))
    if (!value.contains(key.get<std::string>())) return fmt::format("{}: no key {}", path, key.dump());
  const json properties = schema.value("properties", json::object());
  const json others = schema.value("additionalProperties", json(true));
  for (const auto& [key, member] : value.items()) {
    const std::string at = path + "/" + key;
    if (properties.contains(key)) {
      if (std::string found = mismatch(properties[key], member, at); !found.empty()) return found;
    } else if (others.is_object()) {
      if (std::string found = mismatch(others, member, at); !found.empty()) return found;
    } else if (others == false) {
      return at + ": the schema has no such key";
    }
  }
  return {};
}

}  // namespace

std::string mismatch(const json& schema, const json& value, const std::string& path) {
  static const std::set<std::string> known{"$schema",    "title",    "description",          "type", "const", "enum",
                                           "properties", "required", "additionalProperties", "items"};
  for (const auto& [keyword, unused] : schema.items())
    if (!known.contains(keyword)) return fmt::format("{}: keyword {} is not checked here", path, keyword);
  if (schema.contains("type") && !has_type(value, schema["type"]))
    return fmt::format("{}: {} is no {}", path, value.dump(), schema["type"].dump());
  if (schema.contains("const") && value != schema["const"])
    return fmt::format("{}: {} is not {}", path, value.dump(), schema["const"].dump());
  if (schema.contains("enum") && std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return fmt::format("{}: {} is none of {}", path, value.dump(), schema["enum"].dump());
  if (value.is_object()) return object_mismatch(schema, value, path);
  if (value.is_array() && schema.contains("items"))
    for (std::size_t i = 0; i < value.size(); ++i)
      if (std::string found = mismatch(schema["items"], value[i], fmt::format("{}/{}", path, i)); !found.empty())
        return found;
  return {};
}

}  // namespace tw::test
