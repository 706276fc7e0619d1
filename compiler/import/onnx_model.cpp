#include "compiler/import/onnx_model.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <filesystem>

#include "hw/base/file.h"
#include "hw/number/number.h"

namespace tw::compiler {
namespace {

constexpr std::int64_t largest_tensor_elements = std::int64_t{1} << 34;
constexpr std::uint64_t largest_model_bytes = std::uint64_t{1} << 31;  // a protobuf message cannot be longer

int bytes_of_type(int type) {
  switch (type) {
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32: return 4;
    case onnx::TensorProto::DOUBLE:
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::UINT64: return 8;
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16: return 2;
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::BOOL: return 1;
    default: return 0;
  }
}

bool is_integer(int type) {
  return type != onnx::TensorProto::FLOAT && type != onnx::TensorProto::DOUBLE && type != onnx::TensorProto::FLOAT16 &&
         type != onnx::TensorProto::BFLOAT16;
}

template <class T>
double load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

double element(int type, const std::byte* at) {
  switch (type) {
    case onnx::TensorProto::FLOAT: return load<float>(at);
    case onnx::TensorProto::DOUBLE: return load<double>(at);
    case onnx::TensorProto::INT64: return load<std::int64_t>(at);
    case onnx::TensorProto::UINT64: return load<std::uint64_t>(at);
    case onnx::TensorProto::INT32: return load<std::int32_t>(at);
    case onnx::TensorProto::UINT32: return load<std::uint32_t>(at);
    case onnx::TensorProto::INT16: return load<std::int16_t>(at);
    case onnx::TensorProto::UINT16: return load<std::uint16_t>(at);
    case onnx::TensorProto::INT8: return load<std::int8_t>(at);
    case onnx::TensorProto::FLOAT16: {
      std::uint16_t bits;
      std::memcpy(&bits, at, 2);
      return hw::f16_to_f32(bits);
    }
    case onnx::TensorProto::BFLOAT16: {
      std::uint16_t bits;
      std::memcpy(&bits, at, 2);
      return std::bit_cast<float>(std::uint32_t{bits} << 16);
    }
    default: return load<std::uint8_t>(at);
  }
}

// Raw little-endian bytes held in memory.
class RawSource final : public TensorSource {
 public:
  RawSource(std::vector<std::byte> bytes, int type) : bytes_(std::move(bytes)), type_(type) {}
  Status read(std::span<float> out) const override {
    const int size = bytes_of_type(type_);
    if (type_ == onnx::TensorProto::FLOAT) {
      std::memcpy(out.data(), bytes_.data(), out.size() * 4);
    } else {
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<float>(element(type_, bytes_.data() + i * static_cast<std::size_t>(size)));
    }
    return {};
  }
  std::optional<float> uniform() const override {
    const auto size = static_cast<std::size_t>(bytes_of_type(type_));
    for (std::size_t at = size; at < bytes_.size(); at += size)
      if (std::memcmp(bytes_.data() + at, bytes_.data(), size) != 0) return std::nullopt;
    return bytes_.empty() ? std::nullopt : std::optional(static_cast<float>(element(type_, bytes_.data())));
  }

 private:
  std::vector<std::byte> bytes_;
  int type_;
};

// A range of a file beside the model, read when asked.
class ExternalSource final : public TensorSource {
 public:
  ExternalSource(std::string path, std::uint64_t offset, int type)
      : path_(std::move(path)), offset_(offset), type_(type) {}
  Status read(std::span<float> out) const override {
    const auto size = static_cast<std::size_t>(bytes_of_type(type_));
    if (type_ == onnx::TensorProto::FLOAT) return read_file_range(path_, offset_, std::as_writable_bytes(out));
    std::vector<std::byte> bytes(out.size() * size);
    TW_TRY_STATUS(read_file_range(path_, offset_, bytes));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(element(type_, bytes.data() + i * size));
    return {};
  }

 private:
  std::string path_;
  std::uint64_t offset_;
  int type_;
};

tl::unexpected<Error> bad(const std::string& name, const std::string& what) {
  return fail(ErrorKind::bad_input, fmt::format("tensor \"{}\": {}", name, what), {{"tensor", name}});
}

struct External {
  std::string path;
  std::uint64_t offset = 0;
};

Result<External> external_of(const onnx::TensorProto& tensor, const std::string& folder, const std::string& name,
                             std::uint64_t bytes) {
  External external;
  std::string location;
  std::uint64_t length = bytes;
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") external.offset = std::strtoull(entry.value().c_str(), nullptr, 10);
    if (entry.key() == "length") length = std::strtoull(entry.value().c_str(), nullptr, 10);
  }
  const std::filesystem::path path(location);
  bool leaves = location.empty() || path.is_absolute();
  for (const auto& part : path) leaves = leaves || part == "..";
  if (leaves)
    return bad(name, fmt::format("external data at \"{}\"; only files inside the model's folder are read", location));
  external.path = (std::filesystem::path(folder) / path).string();
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(external.path, error);
  if (error)
    return fail(ErrorKind::io,
                fmt::format("tensor \"{}\": external data file \"{}\" cannot be read: {}", name, external.path,
                            error.message()),
                {{"file", external.path}});
  if (length != bytes || external.offset > size || bytes > size - external.offset)
    return bad(name, fmt::format("{} bytes at offset {} of \"{}\" are needed, the file has {}", bytes, external.offset,
                                 location, size));
  return external;
}

// Bytes of the typed repeated fields, in the element type's own width.
template <class Field, class T>
std::vector<std::byte> packed(const Field& field) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(field.size()) * sizeof(T));
  for (int i = 0; i < field.size(); ++i) {
    const T value = static_cast<T>(field.Get(i));
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> typed_bytes(const onnx::TensorProto& tensor) {
  switch (tensor.data_type()) {
    case onnx::TensorProto::FLOAT: return packed<decltype(tensor.float_data()), float>(tensor.float_data());
    case onnx::TensorProto::DOUBLE: return packed<decltype(tensor.double_data()), double>(tensor.double_data());
    case onnx::TensorProto::INT64: return packed<decltype(tensor.int64_data()), std::int64_t>(tensor.int64_data());
    case onnx::TensorProto::UINT64: return packed<decltype(tensor.uint64_data()), std::uint64_t>(tensor.uint64_data());
    case onnx::TensorProto::UINT32: return packed<decltype(tensor.uint64_data()), std::uint32_t>(tensor.uint64_data());
    default: break;
  }
  switch (bytes_of_type(tensor.data_type())) {
    case 4: return packed<decltype(tensor.int32_data()), std::int32_t>(tensor.int32_data());
    case 2: return packed<decltype(tensor.int32_data()), std::uint16_t>(tensor.int32_data());
    default: return packed<decltype(tensor.int32_data()), std::uint8_t>(tensor.int32_data());
  }
}

}  // namespace

Result<onnx::ModelProto> read_onnx(const std::string& path) {
  TW_TRY(const std::vector<std::byte> bytes, read_file(path, largest_model_bytes));
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(
        ErrorKind::bad_input,
        fmt::format("\"{}\" is not an ONNX model: its {} bytes are no protobuf message of one", path, bytes.size()),
        {{"file", path}});
  if (!model.has_graph())
    return fail(ErrorKind::bad_input, fmt::format("\"{}\" holds no graph", path), {{"file", path}});
  return model;
}

Result<TensorData> tensor_data(const onnx::TensorProto& tensor, const std::string& folder, const std::string& name) {
  TensorData data;
  data.element_type = tensor.data_type();
  const int size = bytes_of_type(tensor.data_type());
  if (size == 0)
    return bad(name,
               fmt::format("element type {} is not supported; float, float16, bfloat16, double, integers and bool are",
                           tensor.data_type()));
  data.integer = is_integer(tensor.data_type());
  std::int64_t elements = 1;
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0 || dim > largest_tensor_elements || (dim > 0 && elements > largest_tensor_elements / dim))
      return bad(name, fmt::format("dimension {} makes it too large", dim));
    elements *= dim;
    data.shape.push_back(dim);
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(size);
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    TW_TRY(External external, external_of(tensor, folder, name, bytes));
    data.source = std::make_shared<ExternalSource>(std::move(external.path), external.offset, tensor.data_type());
    return data;
  }
  std::vector<std::byte> raw;
  if (tensor.has_raw_data()) {
    const auto* from = reinterpret_cast<const std::byte*>(tensor.raw_data().data());
    raw.assign(from, from + tensor.raw_data().size());
  } else {
    raw = typed_bytes(tensor);
  }
  if (raw.size() != bytes)
    return bad(name, fmt::format("{} of {} elements need {} bytes, it has {}", to_string(data.shape), elements, bytes,
                                 raw.size()));
  data.source = std::make_shared<RawSource>(std::move(raw), tensor.data_type());
  return data;
}

Result<Constant> tensor_constant(const onnx::TensorProto& tensor, const std::string& folder, const std::string& name) {
  TW_TRY(const TensorData data, tensor_data(tensor, folder, name));
  Constant constant{data.shape, {}, data.integer};
  const std::int64_t elements = elements_of(data.shape);
  const int size = bytes_of_type(tensor.data_type());
  std::vector<std::byte> raw;
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    TW_TRY(const External external,
           external_of(tensor, folder, name, static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(size)));
    raw.resize(static_cast<std::size_t>(elements) * static_cast<std::size_t>(size));
    TW_TRY_STATUS(read_file_range(external.path, external.offset, raw));
  } else if (tensor.has_raw_data()) {
    const auto* from = reinterpret_cast<const std::byte*>(tensor.raw_data().data());
    raw.assign(from, from + tensor.raw_data().size());
  } else {
    raw = typed_bytes(tensor);
  }
  for (std::int64_t i = 0; i < elements; ++i)
    constant.values.push_back(element(tensor.data_type(), raw.data() + static_cast<std::size_t>(i * size)));
  return constant;
}

}  // namespace tw::compiler
