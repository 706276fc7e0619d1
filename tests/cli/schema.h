// tests/cli/schema.h: checks a JSON value against the part of JSON Schema that docs/schema uses.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace tw::test {

// What does not fit, or "". Keywords: type, const, enum, properties, required, additionalProperties, items; any other
// keyword than these and the describing ones is a finding too.
std::string mismatch(const nlohmann::json& schema, const nlohmann::json& value, const std::string& path = "");

}  // namespace tw::test
