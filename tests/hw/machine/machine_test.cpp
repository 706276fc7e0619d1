// tests/hw/machine/machine_test.cpp: machine files: reading, every kind of error, round trip.
#include "hw/machine/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "hw/base/file.h"
#include "hw/machine/keys.h"
#include "tests/support/support.h"

namespace tw::hw {
namespace {

Machine ipu21() {
  auto machine = load_machine("ipu21");
  EXPECT_TRUE(machine) << machine.error().message;
  return *machine;
}

// The text of ipu21 with one piece replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = to_toml(ipu21());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_error(const std::string& text, const std::vector<std::string>& parts) {
  const auto machine = parse_machine(text, "x.toml");
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().kind, ErrorKind::bad_input);
  for (const std::string& part : parts)
    EXPECT_NE(machine.error().message.find(part), std::string::npos) << part << " in: " << machine.error().message;
}

TEST(Machine, BuiltInFileHoldsTheKnownValues) {
  const Machine machine = ipu21();
  EXPECT_EQ(machine.name, "ipu21");
  for (const MachineKey& key : machine_keys()) EXPECT_EQ(value_of(key, machine), key.known) << key.path;
  EXPECT_EQ(machine.sram.capacity_bytes(), 638976U);
  EXPECT_EQ(machine.sram.end(), 0xe8000U);
  EXPECT_EQ(machine.sram.elements(), 13 + 13);
  EXPECT_EQ(machine.rows(), 23);
}

TEST(Machine, SmallMachineIsOneRow) {
  const auto machine = load_machine("ipu21-64");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->rows(), 1);
}

TEST(Machine, WritesWhatItReads) {
  for (const MachineFile& file : list_machines()) {
    const auto machine = load_machine(file.path);
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->name, file.name);
    const auto again = parse_machine(to_toml(*machine), "again");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->name, machine->name);
    EXPECT_EQ(again->description, machine->description);
    for (const MachineKey& key : machine_keys()) EXPECT_EQ(value_of(key, *again), value_of(key, *machine)) << key.path;
  }
}

TEST(Machine, WritesTextsThatNeedEscapes) {
  Machine machine = ipu21();
  machine.description = "a \"quoted\" \\ text\nwith lines";
  machine.prices.gelu_row = 0.1;
  const auto again = parse_machine(to_toml(machine), "again");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->description, machine.description);
  EXPECT_EQ(again->prices.gelu_row, 0.1);
}

TEST(Machine, TellsUnknownKeysWithTheNearest) {
  expect_error(with("gemm_row =", "gemm_rwo ="),
               {"x.toml:", "unknown key \"prices.gemm_rwo\"; did you mean \"prices.gemm_row\"",
                "missing key \"prices.gemm_row\"", "has 2 problems"});
  expect_error(with("[sram]", "[srm]"), {"unknown key \"srm\"", "missing key \"sram.base_bytes\""});
  expect_error("sram = 1\n", {"key \"sram\" is a section"});
}

TEST(Machine, TellsTypesAndRanges) {
  expect_error(with("workers = 6", "workers = 0"), {"key \"workers\" is 0; allowed is 1 to 6 contexts"});
  expect_error(with("workers = 6", "workers = 6.5"), {"key \"workers\" must be an integer number"});
  expect_error(with("workers = 6", "workers = \"six\""), {"key \"workers\" must be an integer number"});
  expect_error(with("gemm_call = 294", "gemm_call = nan"), {"key \"prices.gemm_call\" is nan"});
  expect_error(with("tiles = 1472", "tiles = 9223372036854775807"), {"key \"tiles\" is 9.2"});
  expect_error(with("name = \"ipu21\"", "name = \"\""), {"key \"name\" must be a text"});
}

TEST(Machine, TellsRelations) {
  expect_error(with("tiles = 1472", "tiles = 100"), {"tiles is 100; allowed is a multiple of 64"});
  expect_error(with("region0_bytes = 212992", "region0_bytes = 212996"), {"multiple of sram.element_bytes 16384"});
  expect_error(with("region0_bytes = 212992", "region0_bytes = 229376"), {"region 1 starts at 0x84000"});
  expect_error(with("region1_bytes = 425984", "region1_bytes = 557056"), {"the SRAM ends at 0x108000"});
  expect_error(with("host_window_base_bytes = 0x50000", "host_window_base_bytes = 0x7c000"),
               {"the host window 0x7c000"});
  expect_error(with("neutral_mux = 0x640", "neutral_mux = 0x10"), {"fabric.neutral_mux is 0x10"});
  expect_error(with("neutral_mux = 0x640", "neutral_mux = 0x600"), {"nor fabric.host_mux 0x600"});
}

TEST(Machine, TellsTheLine) {
  const auto machine = parse_machine("name = \"a\"\ntiles = \"many\"\n", "x.toml");
  ASSERT_FALSE(machine);
  EXPECT_NE(machine.error().message.find("x.toml:2: key \"tiles\""), std::string::npos) << machine.error().message;
  const auto broken = parse_machine("name = \"a\"\n\ntiles = = 3\n", "x.toml");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().where.at("line"), "3");
}

TEST(Machine, LoadsByPathAndTellsKnownNames) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.file("mine.toml"), with("name = \"ipu21\"", "name = \"mine\"")));
  EXPECT_EQ(load_machine(folder.file("mine.toml"))->name, "mine");
  const auto missing = load_machine("ipu22");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("did you mean \"ipu21\""), std::string::npos) << missing.error().message;
  EXPECT_EQ(load_machine("./absent.toml").error().kind, ErrorKind::io);
}

TEST(Machine, DataFolderComesFirst) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("machines"));
  ASSERT_TRUE(write_file(folder.file("machines/ipu21.toml"), with("workers = 6", "workers = 4")));
  ASSERT_TRUE(write_file(folder.file("machines/other.toml"), with("name = \"ipu21\"", "name = \"other\"")));
  ::setenv("TILEWRIGHT_DATA", folder.file("").c_str(), 1);
  EXPECT_EQ(load_machine("ipu21")->workers, 4);
  EXPECT_TRUE(load_machine("other"));
  EXPECT_TRUE(load_machine("ipu21-64"));
  ::unsetenv("TILEWRIGHT_DATA");
}

TEST(Machine, DescriptionNamesSources) {
  Machine machine = ipu21();
  machine.workers = 5;
  const std::string text = describe(machine);
  EXPECT_NE(text.find("sram.base_bytes"), std::string::npos);
  EXPECT_NE(text.find("0x4c000"), std::string::npos);
  EXPECT_NE(text.find("this machine file"), std::string::npos);
}

}  // namespace
}  // namespace tw::hw
