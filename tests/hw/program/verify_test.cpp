// tests/hw/program/verify_test.cpp: a sound program breaks no rule; each spoiled one breaks the rule it should.
#include "hw/program/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "hw/base/file.h"
#include "tests/hw/program/sample.h"

namespace tw::hw {
namespace {

struct Spoiled {
  const char* rule;
  std::function<void(Program&, const SampleMap&)> spoil;
};

void put_word(Program& program, std::size_t word, const Instruction& instruction) {
  program.tiles[0].code[word] = encode(instruction)[0];
}

void put_row(Program& program, const RowSchedule& schedule) {
  TileProgram& tile = program.tiles[0];
  const std::size_t at = word_of(program, Opcode::sync);
  tile.code.resize(at);
  const auto row = encode_row(schedule, tile.code_address_bytes + static_cast<std::uint32_t>(at) * 4);
  ASSERT_TRUE(row);
  tile.code.insert(tile.code.end(), row->begin(), row->end());
}

const std::vector<Spoiled>& cases() {
  static const std::vector<Spoiled> list{
      {"program.tiles", [](Program& p, const SampleMap&) { p.tiles.pop_back(); }},
      {"program.stages", [](Program& p, const SampleMap&) { p.stages[4].kind = StageKind::compute; }},
      {"kernel.params", [](Program& p, const SampleMap&) { p.kernels[0].elements = 0; }},
      {"parameters.bounds",
       [](Program& p, const SampleMap&) { p.parameters[0].address_bytes = p.machine.sram.end() - 8; }},
      {"parameters.bounds", [](Program& p, const SampleMap&) { p.parameters[1].tile = 64; }},
      {"load.disjoint", [](Program& p, const SampleMap&) { p.parameters[1].tile = p.parameters[0].tile; }},
      {"parameters.complete", [](Program& p, const SampleMap&) { p.parameters[2].data.pop_back(); }},
      {"binding.blocks", [](Program& p, const SampleMap& at) { p.bindings[0].block_address_bytes[1] = at.in + 4; }},
      {"binding.blocks", [](Program& p, const SampleMap&) { p.bindings[0].layout.first_tile = 60; }},
      {"binding.host_buffer", [](Program& p, const SampleMap&) { p.bindings[0].block_offsets[2] = 1024; }},
      {"binding.host_buffer", [](Program& p, const SampleMap&) { p.bindings[1].bytes -= 1; }},
      {"checkpoint.blocks", [](Program& p, const SampleMap&) { p.checkpoints[0].stage = {6}; }},
      {"code.region",
       [](Program& p, const SampleMap&) { p.tiles[0].code_address_bytes = p.machine.sram.region1_base() - 8; }},
      {"code.entry", [](Program& p, const SampleMap&) { p.tiles[0].entry_bytes += 2; }},
      {"kernel.known", [](Program& p, const SampleMap&) { p.tiles[0].entries[0].kernel = 1; }},
      {"kernel.entry", [](Program& p, const SampleMap& at) { p.tiles[0].entries[0].address_bytes = at.code + 4; }},
      {"kernel.entry", [](Program& p, const SampleMap&) { p.tiles[0].entries.push_back(p.tiles[0].entries[0]); }},
      {"segment.bounds", [](Program& p, const SampleMap&) { p.tiles[0].segments[0].address_bytes = 0; }},
      {"load.disjoint",
       [](Program& p, const SampleMap& at) { p.tiles[0].segments[0].address_bytes = at.parameters + 8; }},
      {"load.disjoint", [](Program& p, const SampleMap& at) { p.tiles[0].segments[0].address_bytes = at.code - 8; }},
      {"origin.known", [](Program& p, const SampleMap&) { p.tiles[0].origins[0].stage = {6}; }},
      {"origin.known", [](Program& p, const SampleMap&) { p.tiles[0].origins[0].words = 1000; }},
      {"buffer.bounds", [](Program& p, const SampleMap&) { p.tiles[0].buffers[0].bytes = 0xffffffff; }},
      {"buffer.bounds", [](Program& p, const SampleMap&) { p.tiles[0].buffers[0].last_stage = 7; }},
      {"buffer.disjoint", [](Program& p, const SampleMap& at) { p.tiles[0].buffers[1].address_bytes = at.in + 512; }},
      {"buffer.code", [](Program& p, const SampleMap& at) { p.tiles[0].buffers[0].address_bytes = at.code; }},
      {"buffer.parameters",
       [](Program& p, const SampleMap& at) { p.tiles[0].buffers[1].address_bytes = at.parameters + 128; }},
      {"code.decodes", [](Program& p, const SampleMap&) { p.tiles[0].code[0] = 0xffffffff; }},
      {"code.branches",
       [](Program& p, const SampleMap&) {
         put_word(p, word_of(p, Opcode::brz), {.opcode = Opcode::brz, .d = 12, .immediate = 64});
       }},
      {"code.branches",
       [](Program& p, const SampleMap&) { put_word(p, word_of(p, Opcode::br), {.opcode = Opcode::br, .s = 5}); }},
      {"code.calls",
       [](Program& p, const SampleMap& at) {
         put_word(p, word_of(p, Opcode::call),
                  {.opcode = Opcode::call, .d = 10, .immediate = static_cast<std::int32_t>(at.kernel + 8)});
       }},
      {"code.ends",
       [](Program& p, const SampleMap&) {
         p.tiles[0].origins.clear();
         p.tiles[0].code.resize(3);
       }},
      {"row.decodes", [](Program& p, const SampleMap&) { p.tiles[0].code.pop_back(); }},
      {"row.send_bounds",
       [](Program& p, const SampleMap&) {
         put_row(p, {.sends = {{20, 4, 0x100, 1}}, .events = 80});
       }},
      {"row.receive_bounds",
       [](Program& p, const SampleMap& at) {
         put_row(p, {.pointers = {{60, at.code / 4}}, .events = 80});
       }},
      {"host.send_bounds",
       [](Program& p, const SampleMap&) {
         const std::size_t word = word_of(p, Opcode::put, 1) + 1;  // instead of the call of the row
         put_word(p, word, {.opcode = Opcode::send, .count = 4, .address = 0x100, .sctl = 3});
       }},
      {"kernel.operand_known",
       [](Program& p, const SampleMap&) {
         put_word(p, word_of(p, Opcode::add), {.opcode = Opcode::add, .d = 3, .s = 7, .immediate = 8});
       }},
      {"kernel.operand_bounds",
       [](Program& p, const SampleMap&) {
         put_word(p, word_of(p, Opcode::setzi, 2), {.opcode = Opcode::setzi, .d = 2, .immediate = 0x100});
       }},
      {"kernel.operand_alignment",
       [](Program& p, const SampleMap&) {
         put_word(p, word_of(p, Opcode::add), {.opcode = Opcode::add, .d = 3, .s = 13, .immediate = 4});
       }},
      // Sound in the first iterations, not in the last: loops are followed.
      {"kernel.operand_alignment",
       [](Program& p, const SampleMap&) {
         put_word(p, word_of(p, Opcode::add, 1), {.opcode = Opcode::add, .d = 13, .s = 13, .immediate = 20});
       }},
      {"kernel.operand_region",
       [](Program& p, const SampleMap& at) {
         p.kernels[0] = {
             .kind = KernelKind::gemm, .rows = 4, .inner = 16, .columns = 16, .row_stride = 4, .out_row_stride = 4};
         put_word(p, word_of(p, Opcode::put, 1),
                  {.opcode = Opcode::setzi, .d = 4, .immediate = static_cast<std::int32_t>(at.parameters)});
         for (TileProgram& tile : p.tiles) tile.code = p.tiles[0].code;
         const std::size_t call = word_of(p, Opcode::call);
         std::swap(p.tiles[0].code[call], p.tiles[0].code[call + 1]);
         put_word(p, word_of(p, Opcode::setzi, 2),
                  {.opcode = Opcode::setzi, .d = 2, .immediate = static_cast<std::int32_t>(at.in + 0x2000)});
       }},
      {"kernel.writes_parameters",
       [](Program& p, const SampleMap& at) {
         put_word(p, word_of(p, Opcode::setzi, 2),
                  {.opcode = Opcode::setzi, .d = 2, .immediate = static_cast<std::int32_t>(at.parameters - 8)});
       }},
      {"row.receive_bounds",
       [](Program& p, const SampleMap& at) {
         put_row(p, {.pointers = {{60, at.parameters / 4}}, .events = 80});
       }},
      {"kernel.writes_code",
       [](Program& p, const SampleMap& at) {
         put_word(p, word_of(p, Opcode::setzi, 2),
                  {.opcode = Opcode::setzi, .d = 2, .immediate = static_cast<std::int32_t>(at.code)});
       }},
  };
  return list;
}

std::string text(const std::vector<Violation>& found) {
  std::string all;
  for (const Violation& violation : found) all += violation.rule + ": " + violation.message + "\n";
  return all;
}

TEST(Verify, ASoundProgramBreaksNoRule) {
  const std::vector<Violation> found = verify(sample_program());
  EXPECT_TRUE(found.empty()) << text(found);
}

TEST(Verify, EverySpoiledProgramBreaksItsRule) {
  std::size_t number = 0;
  for (const Spoiled& spoiled : cases()) {
    Program program = sample_program();
    spoiled.spoil(program, SampleMap(program.machine));
    const std::vector<Violation> found = verify(program);
    const bool named = std::any_of(found.begin(), found.end(),
                                   [&](const Violation& violation) { return violation.rule == spoiled.rule; });
    EXPECT_TRUE(named) << "case " << number << ", " << spoiled.rule << ", found:\n" << text(found);
    ++number;
  }
}

TEST(Verify, OperandsThatShareAnElementAreFound) {
  Program program = sample_program();
  const SampleMap at(program.machine);
  program.kernels[0] = {
      .kind = KernelKind::gemm, .rows = 4, .inner = 16, .columns = 16, .row_stride = 4, .out_row_stride = 4};
  const auto immediate = [](std::uint32_t value) { return static_cast<std::int32_t>(value); };
  bool separated = false;
  for (const Operand& operand : operands(program.kernels[0]))
    separated = separated || operand.separate_from_register != 0;
  ASSERT_TRUE(separated);
  TileProgram& tile = program.tiles[0];
  tile.code.clear();
  for (const auto& [d, value] :
       std::vector<std::pair<int, std::uint32_t>>{{2, at.out}, {3, at.out + 0x200}, {4, at.out + 0x400}})
    tile.code.push_back(encode({.opcode = Opcode::setzi, .d = d, .immediate = immediate(value)})[0]);
  tile.code.push_back(encode({.opcode = Opcode::call, .d = 10, .immediate = immediate(at.kernel)})[0]);
  tile.code.push_back(encode({.opcode = Opcode::trap})[0]);
  tile.origins.clear();
  // The other tiles still call with the sample's operands; only this tile's findings count.
  const std::vector<Violation> found = verify(program);
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const Violation& violation) {
    return violation.rule == "kernel.operand_elements" && violation.message.starts_with("tile 0:");
  })) << text(found).substr(0, 1000);
}

TEST(Verify, ALoopWithoutAnEndIsFound) {
  Program program = sample_program();
  put_word(program, word_of(program, Opcode::add, 2), {.opcode = Opcode::add, .d = 12, .s = 12, .immediate = 0});
  put_word(program, word_of(program, Opcode::add, 1), {.opcode = Opcode::add, .d = 13, .s = 13, .immediate = 0});
  const std::vector<Violation> found = verify(program);
  ASSERT_EQ(found.size(), 1U) << text(found);
  EXPECT_EQ(found[0].rule, "code.ends");
}

TEST(Verify, EveryRuleIsDocumentedAndTested) {
  const auto page = read_text_file(std::string(TW_SOURCE_DIR) + "/docs/reference/rules.md");
  ASSERT_TRUE(page);
  std::set<std::string> tested{"kernel.operand_elements"};
  for (const Spoiled& spoiled : cases()) tested.insert(spoiled.rule);
  for (const ProgramRule& rule : program_rules()) {
    EXPECT_NE(page->find(std::string("| ") + rule.name + " | " + rule.says + " |"), std::string::npos) << rule.name;
    EXPECT_TRUE(tested.contains(rule.name)) << rule.name << " has no case";
  }
}

}  // namespace
}  // namespace tw::hw
