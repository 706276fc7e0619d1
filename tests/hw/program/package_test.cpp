// tests/hw/program/package_test.cpp: packages: round trip, determinism, tampering, truncation, hostile fields.
#include "hw/program/package.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hw/base/file.h"
#include "hw/base/hash.h"
#include "hw/base/random.h"
#include "tests/hw/program/sample.h"
#include "tests/support/support.h"

namespace tw::hw {
namespace {

std::vector<std::byte> bytes_of_file(const std::string& path) {
  auto bytes = read_file(path);
  EXPECT_TRUE(bytes);
  return bytes ? *bytes : std::vector<std::byte>{};
}

// Without the care that write_file takes: thousands of these are made.
void put_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void expect_equal(const Program& a, const Program& b) {
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.dims, b.dims);
  EXPECT_EQ(a.kernels, b.kernels);
  ASSERT_EQ(a.stages.size(), b.stages.size());
  for (std::size_t i = 0; i < a.stages.size(); ++i) {
    EXPECT_EQ(a.stages[i].kind, b.stages[i].kind);
    EXPECT_EQ(a.stages[i].operation, b.stages[i].operation);
    EXPECT_EQ(a.stages[i].iterations, b.stages[i].iterations);
  }
  ASSERT_EQ(a.tiles.size(), b.tiles.size());
  for (std::size_t i = 0; i < a.tiles.size(); ++i) {
    EXPECT_EQ(a.tiles[i].code, b.tiles[i].code);
    EXPECT_EQ(a.tiles[i].segments[0].bytes, b.tiles[i].segments[0].bytes);
    ASSERT_EQ(a.tiles[i].buffers.size(), b.tiles[i].buffers.size());
    EXPECT_EQ(a.tiles[i].buffers[2].operation, b.tiles[i].buffers[2].operation);
    EXPECT_EQ(a.tiles[i].origins[1].stage, b.tiles[i].origins[1].stage);
  }
  ASSERT_EQ(a.bindings.size(), b.bindings.size());
  EXPECT_EQ(a.bindings[0].view, b.bindings[0].view);
  EXPECT_EQ(a.bindings[0].layout, b.bindings[0].layout);
  EXPECT_EQ(a.bindings[1].block_offsets, b.bindings[1].block_offsets);
  ASSERT_EQ(a.checkpoints.size(), b.checkpoints.size());
  EXPECT_EQ(a.checkpoints[0].layout, b.checkpoints[0].layout);
  ASSERT_EQ(a.plan.size(), b.plan.size());
  EXPECT_EQ(a.plan[0].grid, b.plan[0].grid);
  EXPECT_EQ(to_toml(a.machine), to_toml(b.machine));
}

TEST(Package, RoundTrip) {
  const test::TemporaryFolder folder;
  const Program program = sample_program();
  const auto size = write_package(program, folder.file("p.twp"));
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(*size, std::filesystem::file_size(folder.file("p.twp")));
  const auto back = read_package(folder.file("p.twp"));
  ASSERT_TRUE(back) << back.error().message;
  expect_equal(program, *back);
  ASSERT_EQ(back->parameters.size(), program.parameters.size());
  for (std::size_t i = 0; i < program.parameters.size(); ++i)
    EXPECT_EQ(back->parameters[i].data, program.parameters[i].data);
  EXPECT_TRUE(verify(*back).empty());
}

TEST(Package, SameProgramSameBytes) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_package(sample_program(), folder.file("a.twp")));
  ASSERT_TRUE(write_package(*read_package(folder.file("a.twp")), folder.file("b.twp")));
  EXPECT_EQ(bytes_of_file(folder.file("a.twp")), bytes_of_file(folder.file("b.twp")));
}

TEST(Package, WithoutWeights) {
  const test::TemporaryFolder folder;
  Program program = sample_program();
  ASSERT_TRUE(write_package(program, folder.file("with.twp")));
  const auto skipped = read_package(folder.file("with.twp"), false);
  ASSERT_TRUE(skipped) << skipped.error().message;
  EXPECT_FALSE(skipped->has_weights);
  EXPECT_TRUE(skipped->parameters[0].data.empty());
  program.has_weights = false;
  for (ParameterImage& image : program.parameters) image.data.clear();
  ASSERT_TRUE(write_package(program, folder.file("without.twp")));
  EXPECT_LT(std::filesystem::file_size(folder.file("without.twp")),
            std::filesystem::file_size(folder.file("with.twp")));
  const auto back = read_package(folder.file("without.twp"));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_FALSE(back->has_weights);
}

// Any flipped bit is refused, with a place in the message.
TEST(Package, EveryFlippedByteIsRefused) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_package(sample_program(), folder.file("p.twp")));
  const std::vector<std::byte> sound = bytes_of_file(folder.file("p.twp"));
  constexpr int flips = 4000;
  constexpr std::size_t header_and_table_bytes = 1500;
  for (int flip = 0; flip < flips; ++flip) {
    // The first ones walk over the header and the table, the others lie anywhere.
    const std::size_t at = flip < static_cast<int>(std::min(header_and_table_bytes, sound.size()))
                               ? static_cast<std::size_t>(flip)
                               : random_bits(7, static_cast<std::uint64_t>(flip)) % sound.size();
    std::vector<std::byte> bytes = sound;
    bytes[at] ^= static_cast<std::byte>(1 << (random_bits(8, static_cast<std::uint64_t>(flip)) % 8));
    put_file(folder.file("flipped.twp"), bytes);
    const auto program = read_package(folder.file("flipped.twp"));
    ASSERT_FALSE(program) << "byte " << at << " of " << sound.size();
    EXPECT_EQ(program.error().kind, ErrorKind::corrupt) << program.error().message;
    EXPECT_TRUE(program.error().where.contains("file"));
  }
}

TEST(Package, EveryTruncationAndExtensionIsRefused) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_package(sample_program(), folder.file("p.twp")));
  const std::vector<std::byte> sound = bytes_of_file(folder.file("p.twp"));
  for (std::size_t length = 0; length < sound.size(); length += length < 200 ? 1 : 97) {
    put_file(folder.file("cut.twp"), std::span(sound).first(length));
    const auto program = read_package(folder.file("cut.twp"));
    ASSERT_FALSE(program) << length;
    EXPECT_EQ(program.error().kind, ErrorKind::corrupt);
  }
  std::vector<std::byte> longer = sound;
  longer.push_back(std::byte{0});
  ASSERT_TRUE(write_file(folder.file("long.twp"), longer));
  EXPECT_FALSE(read_package(folder.file("long.twp")));
}

// A file whose checksums are right but whose fields are not: written by us from a spoiled program.
TEST(Package, FieldsOutOfRangeAreRefused) {
  const test::TemporaryFolder folder;
  const std::vector<std::function<void(Program&)>> spoils{
      [](Program& p) { p.stages[0].kind = static_cast<StageKind>(6); },
      [](Program& p) { p.stages[0].iterations = 0; },
      [](Program& p) { p.stages.clear(); },
      [](Program& p) { p.kernels[0].kind = static_cast<KernelKind>(14); },
      [](Program& p) { p.kernels[0].format = static_cast<NumberFormat>(200); },
      [](Program& p) { p.kernels[0].elements = -5; },
      [](Program& p) { p.tiles.pop_back(); },
      [](Program& p) { p.tiles[5].code_address_bytes = 0xfffffff0; },
      [](Program& p) { p.tiles[5].code_address_bytes += 2; },
      [](Program& p) { p.tiles[5].entries[0].kernel = 1; },
      [](Program& p) { p.tiles[5].segments[0].address_bytes = 0; },
      [](Program& p) { p.tiles[5].origins[0].stage = {1000}; },
      [](Program& p) { p.tiles[5].buffers[0].use = static_cast<BufferInfo::Use>(7); },
      [](Program& p) { p.parameters[0].tile = 64; },
      [](Program& p) { p.parameters[0].data.resize(255); },
      [](Program& p) {
        p.bindings[0].shape = {sample_rows, -1};
      },
      [](Program& p) {
        p.bindings[0].shape = {1 << 30, 1 << 30, 1 << 30};
      },
      [](Program& p) { p.bindings[0].view.offset = 1; },
      [](Program& p) { p.bindings[0].view.row_dims[0].stride = -20; },
      [](Program& p) { p.bindings[0].layout.row_cuts[1] = 1000; },
      [](Program& p) { p.bindings[0].layout.column_cuts[1] = 8; },
      [](Program& p) { p.bindings[0].layout.groups.padded = 0; },
      [](Program& p) { p.bindings[0].layout.first_tile = -1; },
      [](Program& p) { p.bindings[0].block_address_bytes.pop_back(); },
      [](Program& p) { p.bindings[0].block_offsets[3] = ~std::uint64_t{0}; },
      [](Program& p) { p.bindings[0].bytes = 100; },
      [](Program& p) { p.checkpoints[0].stage = {77}; },
      [](Program& p) { p.checkpoints[0].block_address_bytes[0] = 0; },
      [](Program& p) { p.plan[0].inner_groups = 0; },
      [](Program& p) { p.peak_tile = 64; },
      [](Program& p) { p.machine.tiles = 0; },
  };
  for (std::size_t i = 0; i < spoils.size(); ++i) {
    Program program = sample_program();
    spoils[i](program);
    const auto written = write_package(program, folder.file("bad.twp"));
    ASSERT_TRUE(written) << i;
    const auto back = read_package(folder.file("bad.twp"));
    EXPECT_FALSE(back) << "case " << i;
    if (!back) {
      EXPECT_FALSE(back.error().message.empty()) << "case " << i;
    }
  }
}

TEST(Package, OtherFilesAreNoPackages) {
  const test::TemporaryFolder folder;
  ASSERT_FALSE(read_package(folder.file("none.twp")));
  EXPECT_EQ(read_package(folder.file("none.twp")).error().kind, ErrorKind::io);
  ASSERT_TRUE(write_file(folder.file("text.twp"), std::string(100, 'x')));
  const auto text = read_package(folder.file("text.twp"));
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("no Tilewright package"), std::string::npos) << text.error().message;
  ASSERT_TRUE(write_package(sample_program(), folder.file("p.twp")));
  std::vector<std::byte> bytes = bytes_of_file(folder.file("p.twp"));
  bytes[7] = std::byte{99};
  ASSERT_TRUE(write_file(folder.file("new.twp"), bytes));
  const auto version = read_package(folder.file("new.twp"));
  ASSERT_FALSE(version);
  EXPECT_NE(version.error().message.find("version 99"), std::string::npos) << version.error().message;
  EXPECT_FALSE(write_package(sample_program(), folder.file("no/such/folder/p.twp")));
}

}  // namespace
}  // namespace tw::hw
