// hw/base/text.h: text for people: separators, aligned tables, the nearest name for hints.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

// 1234567 -> "1,234,567".
std::string with_separators(std::int64_t value);

// The candidate with the smallest edit distance to `name`, or "" when none is near (more than half of it differs).
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

// ", did you mean \"x\"?" style tail: "" when nothing is near, else "; did you mean \"x\"?".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

// Rows of cells with aligned columns; cells that look like numbers are right aligned. The first row is the header.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows);

std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string join(std::span<const std::string> parts, std::string_view separator);

}  // namespace tw
