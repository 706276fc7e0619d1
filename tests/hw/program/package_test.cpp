// tests/hw/program/package_test.cpp: packages: round trip, determinism, tampering, truncation, hostile fields.
#include "hw/program/package.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "hw/base/file.h"
#include "hw/base/hash.h"
#include "hw/base/random.h"
#include "hw/program/container.h"
#include "tests/hw/program/same_program.h"
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

// The sample with every remaining field away from its default, so that a field that is not kept shows.
Program full_program() {
  Program program = sample_program();
  program.model_hash = "00ff";
  program.batch = 2;
  program.without_rewrites = {"norm-scale", "key-bias"};
  program.seed = -5;
  program.stages[3].words = 17;
  program.kernels.push_back({.kind = KernelKind::gemm,
                             .format = NumberFormat::f143,
                             .rows = 8,
                             .inner = 32,
                             .columns = 32,
                             .row_stride = 8,
                             .out_row_stride = 8,
                             .scale_exponent = -3});
  program.tiles[7].origins.push_back({7, 2, {4}});
  program.bindings[1].host_base = 1 << 20;
  program.bindings[0].layout.scale_exponent = -2;
  program.plan = {{"up", "matmul", "2x3x4", "f8", 1, 2, 3, 4, 5, 6, -7, 8, true, true, 9, 10, 11, 2, -3, true, "rows"}};
  program.tile_peak_bytes = 1;
  program.resident_bytes_max = 2;
  program.exchange_table_bytes_max = 3;
  program.code_bytes_max = 4;
  return program;
}

TEST(Package, RoundTrip) {
  const test::TemporaryFolder folder;
  const Program program = full_program();
  const auto size = write_package(program, folder.file("p.twp"));
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(*size, std::filesystem::file_size(folder.file("p.twp")));
  const auto back = read_package(folder.file("p.twp"));
  ASSERT_TRUE(back) << back.error().message;
  expect_same(program, *back);
}

TEST(Package, ABatchOfZeroIsTheModelsOwn) {
  const test::TemporaryFolder folder;
  Program program = full_program();
  program.batch = 0;  // what the command line records when no --batch is given
  ASSERT_TRUE(write_package(program, folder.file("p.twp")));
  const auto back = read_package(folder.file("p.twp"));
  ASSERT_TRUE(back) << back.error().message;
  expect_same(program, *back);
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
      [](Program& p) { p.tiles[5].entry_bytes = 0; },
      [](Program& p) { p.tiles[5].entries[0].address_bytes = 0xfffffffe; },
      [](Program& p) { p.tiles[5].origins[0].words = 0xffffffff; },
      [](Program& p) { p.tiles[5].buffers[0].last_stage = 1 << 30; },
      [](Program& p) { p.tiles[5].buffers[0].bytes = 0xffffffff; },
      [](Program& p) { p.parameters[0].tile = 64; },
      [](Program& p) { p.parameters[0].tile = 0x80000000; },
      [](Program& p) { p.peak_tile = 0x80000001; },
      [](Program& p) { p.bindings[0].view.offset = std::numeric_limits<std::int64_t>::min(); },
      // Sums and products of these leave 64 bits.
      [](Program& p) {
        p.bindings[0].view.row_dims.assign(4, {(std::int64_t{1} << 31) - 1, 1 << 30});
      },
      [](Program& p) {
        p.bindings[0].view.column_dims.assign(32, {1 << 30, 0});
      },
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
    ASSERT_FALSE(back) << "case " << i;
    EXPECT_EQ(back.error().kind, ErrorKind::corrupt) << "case " << i << ": " << back.error().message;
    EXPECT_TRUE(back.error().where.contains("section")) << "case " << i;
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
}

TEST(Package, APathThatCannotBeWrittenLeavesNothing) {
  const test::TemporaryFolder folder;
  const auto absent = write_package(sample_program(), folder.file("no/such/folder/p.twp"));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, ErrorKind::io);
  std::filesystem::create_directory(folder.file("taken"));
  const auto taken = write_package(sample_program(), folder.file("taken"));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().kind, ErrorKind::io);
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("taken")));
  std::filesystem::remove(folder.file("taken"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.file(".")));
}

// Weights that shrink are stored compressed, others as they are; both come back.
TEST(Package, WeightsAreCompressedWhereThatSaves) {
  const test::TemporaryFolder folder;
  Program program = sample_program();
  constexpr std::uint32_t bytes = 300'000;  // longer than the sample that is tried
  std::uint64_t sizes[2] = {};
  for (const bool random : {false, true}) {
    for (ParameterImage& image : program.parameters) {
      image.address_bytes = program.machine.sram.base_bytes;
      image.bytes = bytes;
      image.data.resize(bytes);
      for (std::uint32_t i = 0; i < bytes; ++i)
        image.data[i] = static_cast<std::byte>(random ? random_bits(image.tile, i) : i / 64);
    }
    const auto size = write_package(program, folder.file("p.twp"));
    ASSERT_TRUE(size) << size.error().message;
    sizes[random] = *size;
    const auto back = read_package(folder.file("p.twp"));
    ASSERT_TRUE(back) << back.error().message;
    expect_same(program.parameters, back->parameters, "parameters");
  }
  EXPECT_LT(sizes[0], program.parameters.size() * bytes / 4);
  EXPECT_GT(sizes[1], program.parameters.size() * bytes);
}

// Sections whose checksums are right but whose bytes are spoiled: what gets past the container meets the readers of
// the tables. Whatever they say, they say it with an error of kind corrupt or give a program that can be checked.
TEST(Package, SpoiledTablesNeverCrash) {
  const test::TemporaryFolder folder;
  Program small = sample_program();
  ASSERT_TRUE(write_package(small, folder.file("p.twp")));
  const auto sections = read_container(folder.file("p.twp"), true);
  ASSERT_TRUE(sections);
  std::vector<SectionKind> kinds;
  for (const Section& section : *sections) kinds.push_back(section.kind);
  constexpr std::uint64_t tries = 1500;
  int refused = 0;
  for (std::uint64_t number = 0; number < tries; ++number) {
    std::vector<Section> spoiled = *sections;
    std::vector<std::byte>& bytes = spoiled[number % 2].raw;
    const std::uint64_t spots = 1 + random_bits(11, number) % 4;
    for (std::uint64_t spot = 0; spot < spots; ++spot) {
      // Half of them in the first tables, which hold the counts; values that are often on an edge.
      const std::uint64_t random = random_bits(12, number * 8 + spot);
      const std::size_t range = random % 2 == 0 ? std::min<std::size_t>(bytes.size(), 2000) : bytes.size();
      constexpr int edges[] = {0x00, 0xff, 0x80, 0x7f, 0x01};
      bytes[(random >> 8) % range] = (random >> 1) % 2 == 0 ? static_cast<std::byte>(edges[(random >> 2) % 5])
                                                            : static_cast<std::byte>(random >> 56);
    }
    std::vector<std::span<const std::byte>> raw;
    for (const Section& section : spoiled) raw.emplace_back(section.raw);
    ASSERT_TRUE(write_container(folder.file("spoiled.twp"), raw, kinds));
    const auto program = read_package(folder.file("spoiled.twp"));
    if (program) {
      verify(*program);
    } else {
      EXPECT_EQ(program.error().kind, ErrorKind::corrupt) << program.error().message;
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tw::hw
