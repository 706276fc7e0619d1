// tests/hw/program/sample.h: a small sound program with something of everything, for tests of packages and rules.
#pragma once
#include <gtest/gtest.h>
#include <cstring>

#include "hw/isa/instruction.h"
#include "hw/isa/row.h"
#include "hw/program/package.h"

namespace tw::hw {

// Where the sample keeps things, from the SRAM's first address.
struct SampleMap {
  std::uint32_t kernel = 0x1000, code = 0x2000, in = 0x9000, segment = 0xa000, out = 0, parameters = 0;
  explicit SampleMap(const Machine& machine) {
    const std::uint32_t base = machine.sram.base_bytes;
    kernel += base;
    code += base;
    in += base;
    segment += base;
    out = machine.sram.region1_base() + 0x1000;
    parameters = machine.sram.region1_base() + 0x8000;
  }
};

inline constexpr int sample_rows = 128, sample_columns = 20;

inline std::vector<std::uint32_t> sample_code(const SampleMap& at) {
  std::vector<std::uint32_t> code;
  const auto emit = [&](const Instruction& instruction) {
    const auto words = encode(instruction);
    code.insert(code.end(), words.begin(), words.begin() + instruction.words());
  };
  const auto immediate = [](std::uint32_t value) { return static_cast<std::int32_t>(value); };
  emit({.opcode = Opcode::put, .s = 15, .immediate = csr::incoming_base});
  emit({.opcode = Opcode::setzi, .d = 12, .immediate = 3});
  emit({.opcode = Opcode::setzi, .d = 13, .immediate = immediate(at.in)});
  const auto top = at.code + static_cast<std::uint32_t>(code.size()) * 4;
  emit({.opcode = Opcode::setzi, .d = 2, .immediate = immediate(at.out)});
  emit({.opcode = Opcode::add, .d = 3, .s = 13, .immediate = 8});
  emit({.opcode = Opcode::call, .d = 10, .immediate = immediate(at.kernel)});
  emit({.opcode = Opcode::put, .s = 15, .immediate = csr::outgoing_base});
  const std::size_t row_call = code.size();
  emit({.opcode = Opcode::call, .d = 10, .immediate = immediate(at.code)});
  emit({.opcode = Opcode::add, .d = 13, .s = 13, .immediate = 64});
  emit({.opcode = Opcode::add, .d = 12, .s = 12, .immediate = -1});
  emit({.opcode = Opcode::brz,
        .d = 12,
        .immediate = immediate(at.code + static_cast<std::uint32_t>(code.size() + 3) * 4)});
  emit({.opcode = Opcode::setzi, .d = 9, .immediate = immediate(top)});
  emit({.opcode = Opcode::br, .s = 9});
  emit({.opcode = Opcode::trap});
  if (code.size() % 2 != 0) code.push_back(0x19e00000);  // nop: rows start at multiples of 8
  const auto row_address = at.code + static_cast<std::uint32_t>(code.size()) * 4;
  code[row_call] = encode({.opcode = Opcode::call, .d = 10, .immediate = immediate(row_address)})[0];
  const auto row =
      encode_row({.sends = {{20, 4, at.out / 4, 1}}, .pointers = {{60, at.in / 4}}, .events = 80}, row_address);
  EXPECT_TRUE(row) << row.error().message;
  code.insert(code.end(), row->begin(), row->end());
  return code;
}

// The word of the sample's code that holds this opcode, the nth of them.
inline std::size_t word_of(const Program& program, Opcode opcode, int nth = 0) {
  const auto& code = program.tiles[0].code;
  for (std::size_t word = 0; word < code.size();) {
    const Instruction instruction = decode(std::span(code).subspan(word));
    if (instruction.opcode == opcode && nth-- == 0) return word;
    word += static_cast<std::size_t>(instruction.words());
  }
  ADD_FAILURE() << "no such instruction";
  return 0;
}

inline Binding sample_binding(const std::string& name, bool input, std::uint32_t address) {
  Binding binding;
  binding.name = name;
  binding.input = input;
  binding.shape = {sample_rows, sample_columns};
  binding.view = plain_view(sample_rows, sample_columns);
  binding.layout.groups = {1, sample_columns, 32};
  binding.layout.row_cuts = balanced_cuts(sample_rows, 4, 1, true);
  binding.layout.column_cuts = {0, 16, 32};
  for (int block = 0; block < binding.layout.blocks(); ++block) {
    binding.block_address_bytes.push_back(address);
    binding.block_offsets.push_back(binding.bytes);
    binding.bytes += 1024;  // 32 rows of 16 F16 columns
  }
  return binding;
}

inline Program sample_program() {
  Program program;
  auto machine = load_machine("ipu21-64");
  EXPECT_TRUE(machine) << machine.error().message;
  program.machine = *machine;
  const SampleMap at(program.machine);
  program.model = "sample";
  program.precision = "f16";
  program.tilewright_version = "0.0.0";
  program.dims = {{"N", 3}};
  program.stages = {{StageKind::host_input, "x", "load"},        {StageKind::loop_begin, "layers", "begin"},
                    {StageKind::compute, "act", "gelu", 3, 500}, {StageKind::exchange, "act", "gather", 3, 100, 4},
                    {StageKind::loop_end, "layers", "end"},      {StageKind::host_output, "y", "store"}};
  program.kernels = {{.kind = KernelKind::gelu, .elements = 64}};
  const std::vector<std::uint32_t> code = sample_code(at);
  program.tiles.resize(static_cast<std::size_t>(program.machine.tiles));
  for (std::size_t index = 0; index < program.tiles.size(); ++index) {
    TileProgram& tile = program.tiles[index];
    tile.code_address_bytes = tile.entry_bytes = at.code;
    tile.code = code;
    tile.entries = {{at.kernel, 0}};
    Segment segment{.address_bytes = at.segment, .bytes = {}};
    segment.bytes.assign(16, static_cast<std::byte>(index));
    tile.segments = {segment};
    tile.origins = {{0, 3, {1}}, {3, 4, {2}}};
    tile.buffers = {{"x", "act", at.in, 1024, 0, 3, BufferInfo::Use::value},
                    {"y", "act", at.out, 1024, 2, 6, BufferInfo::Use::value},
                    {"w", "act weights", at.parameters, 256, 0, 6, BufferInfo::Use::parameter}};
    if (index % 3 == 0) {
      ParameterImage image{
          .tile = static_cast<std::uint32_t>(index), .address_bytes = at.parameters, .bytes = 256, .data = {}};
      for (std::uint32_t byte = 0; byte < image.bytes; ++byte)
        image.data.push_back(static_cast<std::byte>(byte * 7 + index));
      program.parameters.push_back(std::move(image));
    }
  }
  program.bindings = {sample_binding("x", true, at.in), sample_binding("y", false, at.out)};
  const Binding& out = program.bindings[1];
  program.checkpoints = {{"act", "y", {3}, out.shape, out.view, out.layout, out.block_address_bytes}};
  program.plan = {{.operation = "act",
                   .kind = "gelu",
                   .grid = "4x2",
                   .precision = "f16",
                   .cycles = 600,
                   .compute_cycles = 500,
                   .exchange_cycles = 100}};
  program.estimated_cycles = 1800;
  program.tiles_used = 64;
  program.peak_tile = 3;
  return program;
}

}  // namespace tw::hw
