// runtime/report/html.h: text into HTML: escaping and number formats of the page.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace tw::runtime {

// Text as HTML content or attribute value.
std::string escape(std::string_view text);
// Text as a JSON string, quotes included, that may stand inside a <script> element.
std::string json_string(std::string_view text);

std::string percent(double fraction);                               // "12.3 %"
std::string bytes_text(std::int64_t bytes);                         // "417,376 bytes (407.6 KiB)"
std::string plural(std::int64_t count, std::string_view singular);  // "1,234 cycles"

template <class... Args>
void append(std::string& html, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(html), format, std::forward<Args>(args)...);
}

}  // namespace tw::runtime
