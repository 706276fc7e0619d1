// tests/runtime/session/arrays_test.cpp: NPY files: element types, orders, versions, hostile headers.
#include "runtime/session/arrays.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "hw/base/file.h"
#include "hw/base/random.h"
#include "tests/support/support.h"

namespace tw::runtime {
namespace {

template <class T>
std::string raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (int byte = 0; byte < (version == 1 ? 2 : 4); ++byte)
    file += static_cast<char>(header.size() >> (8 * byte) & 0xff);
  return file + header + data;
}

std::string header(const std::string& type, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }\n";
}

Result<Tensor> read(const std::string& bytes) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("x.npy"), std::ios::binary) << bytes;  // without the care that write_file takes
  return read_npy(folder.file("x.npy"));
}

void expect_values(const Result<Tensor>& tensor, const std::vector<std::int64_t>& shape,
                   const std::vector<float>& values) {
  ASSERT_TRUE(tensor) << tensor.error().message;
  EXPECT_EQ(tensor->shape, shape);
  EXPECT_EQ(tensor->data, values);
}

TEST(Npy, WritesWhatItReads) {
  const test::TemporaryFolder folder;
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{}, {5}, {2, 3}, {2, 1, 4}, {0, 3}}) {
    Tensor tensor{shape, {}};
    tensor.data.resize(static_cast<std::size_t>(compiler::elements_of(shape)));
    fill_normal(1, 0, 0.0F, 1.0F, tensor.data);
    ASSERT_TRUE(write_npy(folder.file("x.npy"), tensor));
    const auto back = read_npy(folder.file("x.npy"));
    expect_values(back, shape, tensor.data);
  }
}

TEST(Npy, ElementTypes) {
  expect_values(read(npy(header("<f8", "(2,)"), raw<double>({1.5, -2}))), {2}, {1.5F, -2});
  expect_values(read(npy(header("<f2", "(2,)"), raw<std::uint16_t>({0x3c00, 0xc000}))), {2}, {1, -2});
  expect_values(read(npy(header("<i8", "(2,)"), raw<std::int64_t>({7, -8}))), {2}, {7, -8});
  expect_values(read(npy(header("<i4", "(1, 2)"), raw<std::int32_t>({7, -8}))), {1, 2}, {7, -8});
  expect_values(read(npy(header("|u1", "(3,)"), raw<std::uint8_t>({0, 1, 255}))), {3}, {0, 1, 255});
  expect_values(read(npy(header("|b1", "(2,)"), raw<std::uint8_t>({0, 1}))), {2}, {0, 1});
}

TEST(Npy, FortranOrderAndVersions) {
  expect_values(read(npy(header("<f4", "(2, 3)", true), raw<float>({0, 3, 1, 4, 2, 5}))), {2, 3}, {0, 1, 2, 3, 4, 5});
  for (const int version : {1, 2, 3}) expect_values(read(npy(header("<f4", "()"), raw<float>({4}), version)), {}, {4});
}

TEST(Npy, BadFilesAreRefused) {
  const std::string data = raw<float>({1, 2});
  for (const std::string& bytes : std::vector<std::string>{
           "", "\x93NUMPY", "not an array at all", npy(header("<f4", "(2,)"), data, 9),
           npy(header(">f4", "(2,)"), data), npy(header("<c8", "(1,)"), data), npy(header("|O", "(1,)"), data),
           npy(header("<f4", "(3,)"), data), npy(header("<f4", "(1,)"), data), npy(header("<f4", "(-2,)"), data),
           npy(header("<f4", "(99999999999999999999,)"), data), npy(header("<f4", "(4294967296, 4294967296)"), data),
           npy(header("<f4", "(2"), data), npy(header("<f4", "2"), data), npy(header("<f4", "(x,)"), data),
           npy("{}", data), npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", data),
           std::string("\x93NUMPY\x01\x00\xff\xff", 10) + header("<f4", "(2,)") + data}) {
    const auto tensor = read(bytes);
    ASSERT_FALSE(tensor) << bytes.substr(0, 120);
    EXPECT_EQ(tensor.error().kind, ErrorKind::bad_input);
    EXPECT_TRUE(tensor.error().where.contains("file"));
  }
  EXPECT_EQ(read_npy("/no/such/file.npy").error().kind, ErrorKind::io);
}

// A ZIP archive of stored members, as numpy.savez makes it; `method` is what the directory says.
std::string npz(const std::vector<std::pair<std::string, std::string>>& members, std::uint16_t method = 0) {
  std::string file, directory;
  const auto put = [](std::string& out, std::uint64_t value, int bytes) {
    for (int byte = 0; byte < bytes; ++byte) out += static_cast<char>(value >> (8 * byte) & 0xff);
  };
  for (const auto& [name, data] : members) {
    const std::size_t offset = file.size();
    put(file, 0x04034b50, 4);
    file += std::string(22, '\0');
    put(file, name.size(), 2);
    put(file, 4, 2);  // an extra field, skipped
    file += name + "abcd" + data;
    put(directory, 0x02014b50, 4);
    put(directory, 0, 6);
    put(directory, method, 2);
    put(directory, 0, 8);
    put(directory, data.size(), 4);
    put(directory, data.size(), 4);
    put(directory, name.size(), 2);
    directory += std::string(12, '\0');
    put(directory, offset, 4);
    directory += name;
  }
  const std::size_t start = file.size();
  file += directory;
  put(file, 0x06054b50, 4);
  put(file, 0, 4);
  put(file, members.size(), 2);
  put(file, members.size(), 2);
  put(file, directory.size(), 4);
  put(file, start, 4);
  put(file, 0, 2);
  return file;
}

Result<std::map<std::string, Tensor>> read_archive(const std::string& bytes) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("x.npz"), std::ios::binary) << bytes;
  return read_npz(folder.file("x.npz"));
}

TEST(Npz, ReadsStoredMembers) {
  const auto arrays = read_archive(npz({{"x.npy", npy(header("<f4", "(2,)"), raw<float>({1, 2}))},
                                        {"mask.npy", npy(header("<i8", "(1,)"), raw<std::int64_t>({7}))}}));
  ASSERT_TRUE(arrays) << arrays.error().message;
  ASSERT_EQ(arrays->size(), 2U);
  EXPECT_EQ(arrays->at("x").data, (std::vector<float>{1, 2}));
  EXPECT_EQ(arrays->at("mask").data, std::vector<float>{7});
}

TEST(Npz, BadArchivesAreRefused) {
  const std::string array = npy(header("<f4", "(2,)"), raw<float>({1, 2}));
  for (const std::string& bytes :
       {std::string(), std::string(100, 'x'), npz({{"x.npy", array}}, 8), npz({{"x.npy", "text"}})}) {
    const auto arrays = read_archive(bytes);
    ASSERT_FALSE(arrays);
    EXPECT_EQ(arrays.error().kind, ErrorKind::bad_input);
  }
  const std::string sound = npz({{"x.npy", array}, {"y.npy", array}});
  for (std::uint64_t round = 0; round < 800; ++round) {
    std::string bytes = sound;
    for (std::uint64_t change = 0; change < 2; ++change)
      bytes[random_bits(5, round * 2 + change) % bytes.size()] = static_cast<char>(random_bits(6, round * 2 + change));
    static_cast<void>(read_archive(bytes));  // arrays or an error
  }
}

// Any spoiled header gives a tensor of the right size or an error, and nothing else.
TEST(Npy, SpoiledHeadersNeverCrash) {
  const std::string sound = npy(header("<f4", "(2, 3)"), raw<float>({0, 1, 2, 3, 4, 5}));
  for (std::uint64_t round = 0; round < 800; ++round) {
    std::string bytes = sound;
    for (int change = 0; change < 2; ++change)
      bytes[random_bits(3, round * 4 + static_cast<std::uint64_t>(change)) % (bytes.size() - 24)] =
          static_cast<char>(random_bits(4, round * 4 + static_cast<std::uint64_t>(change)));
    if (const auto tensor = read(bytes)) {
      EXPECT_EQ(tensor->data.size(), static_cast<std::size_t>(compiler::elements_of(tensor->shape)));
    }
  }
}

}  // namespace
}  // namespace tw::runtime
