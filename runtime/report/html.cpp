// runtime/report/html.cpp: escaping and number formats of the page.
#include "runtime/report/html.h"

#include "hw/base/text.h"

namespace tw::runtime {

std::string escape(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += c;
    }
  }
  return result;
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (code < 0x20 || c == '<' || c == '>' || c == '&') {
      append(result, "\\u{:04x}", code);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string bytes_text(std::int64_t bytes) {
  return fmt::format("{} bytes ({:.1f} KiB)", with_separators(bytes), static_cast<double>(bytes) / 1024);
}

std::string plural(std::int64_t count, std::string_view singular) {
  return fmt::format("{} {}{}", with_separators(count), singular, count == 1 ? "" : "s");
}

}  // namespace tw::runtime
