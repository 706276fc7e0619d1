// simulator/calibration/rows.cpp: measured rows from CSV, and errors by kind.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "hw/base/text.h"
#include "simulator/calibration/calibration.h"

namespace tw::sim {
namespace {

class Reader {
 public:
  Reader(const std::string& text, const std::string& file) : lines_(split(text, '\n')), file_(file) {
    for (const CalibrationKind& kind : calibration_kinds()) kinds_.emplace_back(kind.name);
  }

  Result<std::vector<CalibrationRow>> read() {
    header_ = cells_of(0);
    for (const char* column : {"name", "kind", "rows", "measured_cycles"})
      if (find(column) == header_.size()) return bad(0, fmt::format("there is no column \"{}\"", column));
    std::vector<CalibrationRow> rows;
    for (std::size_t line = 1; line < lines_.size(); ++line) {
      if (trim(lines_[line]).empty()) continue;
      CalibrationRow row{.name = text(line, "name"), .kind = text(line, "kind"), .precision = text(line, "precision")};
      row.line = static_cast<int>(line) + 1;
      TW_TRY(row.rows, number(line, "rows"));
      TW_TRY(row.inner, number(line, "inner"));
      TW_TRY(row.columns, number(line, "columns"));
      TW_TRY(row.partials, number(line, "partials"));
      TW_TRY(row.measured_cycles, number(line, "measured_cycles"));
      if (row.measured_cycles < 1) return bad(line, "measured_cycles: a whole number of at least 1 is expected");
      if (std::find(kinds_.begin(), kinds_.end(), row.kind) == kinds_.end())
        return bad(line, fmt::format("unknown kind \"{}\"{}; known are {}", row.kind, did_you_mean(row.kind, kinds_),
                                     join(kinds_, ", ")));
      if (row.precision.empty()) row.precision = "f16";
      if (row.precision != "f8" && row.precision != "f16" && row.precision != "f32")
        return bad(line, fmt::format("precision \"{}\"; f8, f16 or f32 is expected", row.precision));
      rows.push_back(std::move(row));
    }
    if (rows.empty()) return bad(0, "there is no row");
    return rows;
  }

 private:
  tl::unexpected<Error> bad(std::size_t line, const std::string& what) const {
    return fail(ErrorKind::bad_input, fmt::format("{} line {}: {}", file_, line + 1, what),
                {{"file", file_}, {"line", std::to_string(line + 1)}},
                "columns: name,kind,rows,inner,columns,precision,partials,measured_cycles");
  }
  std::vector<std::string> cells_of(std::size_t line) const {
    return line < lines_.size() ? split(lines_[line], ',') : std::vector<std::string>{};
  }
  std::size_t find(const char* column) const {
    std::size_t at = 0;
    while (at < header_.size() && trim(header_[at]) != column) ++at;
    return at;
  }
  std::string text(std::size_t line, const char* column) const {
    const std::vector<std::string> cells = cells_of(line);
    const std::size_t at = find(column);
    return at < cells.size() ? std::string(trim(cells[at])) : std::string();
  }
  Result<std::int64_t> number(std::size_t line, const char* column) const {
    const std::string cell = text(line, column);
    std::int64_t value = 0;
    if (cell.empty()) return value;
    constexpr std::int64_t largest = 1'000'000'000;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size() || value < 0 || value > largest)
      return bad(line, fmt::format("{}: \"{}\" is no whole number of 0 to 1,000,000,000", column, cell));
    return value;
  }

  std::vector<std::string> lines_, header_, kinds_;
  const std::string& file_;
};

}  // namespace

Result<std::vector<CalibrationRow>> read_calibration_csv(const std::string& text, const std::string& file) {
  return Reader(text, file).read();
}

CalibrationSummary summarise(const std::vector<CalibrationRow>& rows, const std::vector<std::int64_t>& simulated) {
  CalibrationSummary summary;
  for (std::size_t index = 0; index < rows.size(); ++index) {
    CalibrationSummary::Kind& kind = summary.kinds[rows[index].kind];
    const double error =
        std::abs(static_cast<double>(simulated[index]) / static_cast<double>(rows[index].measured_cycles) - 1);
    kind.mean_abs_error = (kind.mean_abs_error * kind.rows + error) / (kind.rows + 1);
    kind.worst_abs_error = std::max(kind.worst_abs_error, error);
    ++kind.rows;
  }
  return summary;
}

}  // namespace tw::sim
