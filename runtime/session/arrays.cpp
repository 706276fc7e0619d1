#include "runtime/session/arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "hw/base/file.h"
#include "hw/base/text.h"
#include "hw/number/number.h"

namespace tw::runtime {
namespace {

constexpr std::uint64_t largest_file_bytes = std::uint64_t{1} << 34;
constexpr std::size_t preamble_bytes = 10;  // magic, version, two bytes of header length

tl::unexpected<Error> bad(const std::string& path, const std::string& what) {
  return fail(ErrorKind::bad_input, fmt::format("\"{}\": {}", path, what), {{"file", path}},
              "write it with numpy.save of a float32 array");
}

// The text after "'key':" in the header dictionary.
std::string_view entry(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const std::size_t colon = header.find(':', at);
  return colon == std::string_view::npos ? std::string_view{} : trim(header.substr(colon + 1));
}

template <class T>
float load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<float>(value);
}

using Loader = float (*)(const std::byte*);
struct ElementType {
  const char* code;
  std::size_t bytes;
  Loader load;
};

float load_half(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return hw::f16_to_f32(bits);
}

constexpr ElementType types[] = {
    {"f2", 2, load_half},           {"f4", 4, load<float>},         {"f8", 8, load<double>},
    {"i1", 1, load<std::int8_t>},   {"i2", 2, load<std::int16_t>},  {"i4", 4, load<std::int32_t>},
    {"i8", 8, load<std::int64_t>},  {"u1", 1, load<std::uint8_t>},  {"u2", 2, load<std::uint16_t>},
    {"u4", 4, load<std::uint32_t>}, {"u8", 8, load<std::uint64_t>}, {"b1", 1, load<std::uint8_t>},
};

Result<std::vector<std::int64_t>> shape_of(const std::string& path, std::string_view text) {
  std::vector<std::int64_t> shape;
  if (text.empty() || text.front() != '(') return bad(path, "its header has no shape");
  const std::size_t end = text.find(')');
  if (end == std::string_view::npos) return bad(path, "its header's shape has no end");
  std::int64_t elements = 1;
  for (const std::string& part : split(text.substr(1, end - 1), ',')) {
    const std::string digits(trim(part));
    if (digits.empty()) continue;
    char* stop = nullptr;
    const long long dim = std::strtoll(digits.c_str(), &stop, 10);
    constexpr std::int64_t most = std::int64_t{1} << 33;
    if (*stop != '\0' || dim < 0 || (dim > 0 && elements > most / dim))
      return bad(path, fmt::format("dimension \"{}\" of its shape", digits));
    elements *= dim;
    shape.push_back(dim);
  }
  return shape;
}

// From Fortran to C order.
std::vector<float> reordered(const std::vector<float>& in, const std::vector<std::int64_t>& shape) {
  std::vector<float> out(in.size());
  std::vector<std::int64_t> index(shape.size(), 0);
  for (float& value : out) {
    std::int64_t at = 0, stride = 1;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      at += index[axis] * stride;
      stride *= shape[axis];
    }
    value = in[static_cast<std::size_t>(at)];
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
  return out;
}

}  // namespace

Result<Tensor> parse_npy(const std::string& path, std::span<const std::byte> bytes) {
  if (bytes.size() < preamble_bytes + 2 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0)
    return bad(path, "it is no .npy file: its magic bytes are missing");
  const int version = std::to_integer<int>(bytes[6]);
  if (version < 1 || version > 3) return bad(path, fmt::format("version {} of the format; 1 to 3 are read", version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= std::to_integer<std::size_t>(bytes[8 + i]) << (8 * i);
  const std::size_t start = 8 + length_bytes;
  if (length > bytes.size() - start)
    return bad(path, fmt::format("its header of {} bytes is longer than the file", length));
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + start, length);

  const std::string_view description = entry(header, "'descr'");
  if (description.size() < 5 || description[0] != '\'') return bad(path, "its header names no plain element type");
  if (description[1] == '>') return bad(path, "big-endian elements; little-endian ones are read");
  const ElementType* type = nullptr;
  for (const ElementType& candidate : types)
    if (description.substr(2, 2) == candidate.code && description[4] == '\'') type = &candidate;
  if (type == nullptr)
    return bad(path, fmt::format("element type {}; f2, f4, f8, integers and bool are read",
                                 description.substr(0, description.find(','))));
  TW_TRY(const std::vector<std::int64_t> shape, shape_of(path, entry(header, "'shape'")));
  const std::size_t elements = static_cast<std::size_t>(compiler::elements_of(shape));
  const std::size_t available = bytes.size() - start - length;
  if (elements * type->bytes != available)
    return bad(path, fmt::format("{} elements of {} bytes need {} bytes, {} follow the header", elements, type->bytes,
                                 elements * type->bytes, available));

  Tensor tensor{shape, std::vector<float>(elements)};
  const std::byte* data = bytes.data() + start + length;
  for (std::size_t i = 0; i < elements; ++i) tensor.data[i] = type->load(data + i * type->bytes);
  if (entry(header, "'fortran_order'").starts_with("True")) tensor.data = reordered(tensor.data, shape);
  return tensor;
}

Result<Tensor> read_npy(const std::string& path) {
  TW_TRY(const std::vector<std::byte> bytes, read_file(path, largest_file_bytes));
  return parse_npy(path, bytes);
}

Status write_npy(const std::string& path, const Tensor& tensor) {
  std::string shape = fmt::format("{}", fmt::join(tensor.shape, ", "));
  if (tensor.shape.size() == 1) shape += ",";
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", shape);
  constexpr std::size_t alignment = 64;
  while ((preamble_bytes + header.size() + 1) % alignment != 0) header += ' ';
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  return write_file(path, [&](const ByteSink& sink) -> Status {
    TW_TRY_STATUS(sink(std::as_bytes(std::span(start))));
    TW_TRY_STATUS(sink(std::as_bytes(std::span(header))));
    return sink(std::as_bytes(std::span(tensor.data)));
  });
}

}  // namespace tw::runtime
