#include "compiler/place/packing_csv.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "hw/base/text.h"

namespace tw::compiler {
namespace {

class Reader {
 public:
  Reader(const std::string& text, const std::string& name) : lines_(split(text, '\n')), name_(name) {}

  Result<PackingTable> read() {
    if (lines_.empty() || trim(lines_[0]).empty()) return bad(1, "no header line");
    TW_TRY_STATUS(read_header());
    PackingTable table;
    std::set<std::string> seen;
    for (std::size_t line = 1; line < lines_.size(); ++line) {
      if (trim(lines_[line]).empty()) continue;
      const std::vector<std::string> cells = split(lines_[line], ',');
      if (cells.size() < columns_)
        return bad(line + 1, fmt::format("{} cells, the header has {}", cells.size(), columns_));
      PackingBuffer buffer;
      TW_TRY(buffer.lower, number(cells, lower_, line));
      TW_TRY(buffer.upper, number(cells, upper_, line));
      if (inclusive_) ++buffer.upper;
      TW_TRY(buffer.size, number(cells, size_, line));
      if (buffer.lower >= buffer.upper)
        return bad(line + 1, fmt::format("lower {} is not below upper {}", buffer.lower, buffer.upper));
      if (buffer.size < 0) return bad(line + 1, fmt::format("size {}; 0 or more is allowed", buffer.size));
      std::string id(trim(cells[id_]));
      if (!seen.insert(id).second) return bad(line + 1, fmt::format("id \"{}\" is there twice", id));
      table.ids.push_back(std::move(id));
      table.buffers.push_back(buffer);
    }
    return table;
  }

 private:
  tl::unexpected<Error> bad(std::size_t line, const std::string& what) const {
    return fail(ErrorKind::bad_input, fmt::format("{} line {}: {}", name_, line, what),
                {{"file", name_}, {"line", std::to_string(line)}}, "a line reads like the header: id,lower,upper,size");
  }

  Status read_header() {
    const std::vector<std::string> header = split(lines_[0], ',');
    columns_ = header.size();
    const auto find = [&](const char* wanted) {
      for (std::size_t at = 0; at < header.size(); ++at)
        if (trim(header[at]) == wanted) return at;
      return header.size();
    };
    id_ = find("id");
    lower_ = find("lower") < columns_ ? find("lower") : find("start");
    upper_ = find("upper");
    inclusive_ = upper_ == columns_;
    if (inclusive_) upper_ = find("end");
    size_ = find("size");
    for (const auto& [at, column] : {std::pair{id_, "id"}, {lower_, "lower"}, {upper_, "upper"}, {size_, "size"}})
      if (at == columns_) return bad(1, fmt::format("there is no column \"{}\"", column));
    return {};
  }

  Result<std::int64_t> number(const std::vector<std::string>& cells, std::size_t column, std::size_t line) const {
    const std::string_view cell = trim(cells[column]);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size())
      return bad(line + 1, fmt::format("\"{}\" is no whole number of 64 bits", cell));
    constexpr std::int64_t limit = std::int64_t{1} << 62;
    if (value > limit || value < -limit) return bad(line + 1, fmt::format("{} is beyond 2^62", value));
    return value;
  }

  std::vector<std::string> lines_;
  const std::string& name_;
  std::size_t columns_ = 0, id_ = 0, lower_ = 0, upper_ = 0, size_ = 0;
  bool inclusive_ = false;
};

}  // namespace

Result<PackingTable> read_packing_csv(const std::string& text, const std::string& name) {
  return Reader(text, name).read();
}

std::string packing_csv(const PackingTable& table, std::span<const std::int64_t> offsets) {
  std::string text = "id,lower,upper,size,offset\n";
  for (std::size_t index = 0; index < table.buffers.size(); ++index) {
    const PackingBuffer& buffer = table.buffers[index];
    text += fmt::format("{},{},{},{},{}\n", table.ids[index], buffer.lower, buffer.upper, buffer.size, offsets[index]);
  }
  return text;
}

}  // namespace tw::compiler
