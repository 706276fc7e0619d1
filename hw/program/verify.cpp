// hw/program/verify.cpp: checks a program independently of the compiler that made it. Rules: docs/reference/rules.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "hw/base/parallel.h"
#include "hw/isa/instruction.h"
#include "hw/isa/row.h"
#include "hw/program/package.h"

namespace tw::hw {
namespace {

// The checks of one tile; walks its supervisor program once in a straight line.
class TileChecker {
 public:
  TileChecker(const Program& program, std::uint32_t tile, const std::vector<std::vector<Operand>>& operands)
      : program_(program), sram_(program.machine.sram), tile_(tile), code_(program.tiles[tile]), operands_(operands) {}

  std::vector<Violation> run() {
    bounds();
    if (found_.empty()) buffers();
    if (found_.empty()) code();
    return std::move(found_);
  }

 private:
  void add(const char* rule, const std::string& message) {
    found_.push_back({rule, fmt::format("tile {}: {}", tile_, message)});
  }

  std::uint32_t code_end() const {
    return code_.code_address_bytes + static_cast<std::uint32_t>(code_.code.size()) * 4;
  }

  void bounds() {
    const std::size_t bytes = code_.code.size() * 4;
    if (bytes > sram_.region0_bytes || !sram_.contains(code_.code_address_bytes, static_cast<std::uint32_t>(bytes)) ||
        code_end() > sram_.region1_base())
      return add("code.region",
                 fmt::format("code of {} bytes at {:#x} leaves region 0", bytes, code_.code_address_bytes));
    if (code_.entry_bytes < code_.code_address_bytes || code_.entry_bytes >= code_end() || code_.entry_bytes % 4 != 0)
      add("code.entry", fmt::format("the entry {:#x} is no instruction of its code", code_.entry_bytes));
    for (const KernelEntry& entry : code_.entries) {
      if (entry.kernel >= program_.kernels.size())
        return add("kernel.known", fmt::format("entry {:#x} names kernel {} of {}", entry.address_bytes, entry.kernel,
                                               program_.kernels.size()));
      if (!sram_.contains(entry.address_bytes, 4) || sram_.region_of(entry.address_bytes) != 0 ||
          (entry.address_bytes >= code_.code_address_bytes && entry.address_bytes < code_end()))
        add("kernel.entry",
            fmt::format("a kernel entry at {:#x} lies outside region 0 or inside the program", entry.address_bytes));
    }
    for (const Segment& segment : code_.segments)
      if (!sram_.contains(segment.address_bytes, static_cast<std::uint32_t>(segment.bytes.size())))
        add("segment.bounds", fmt::format("a segment at {:#x} leaves the SRAM", segment.address_bytes));
    for (const BufferInfo& buffer : code_.buffers)
      if (!sram_.contains(buffer.address_bytes, buffer.bytes))
        add("buffer.bounds", fmt::format("buffer \"{}\" of {} bytes at {:#x} leaves the SRAM", buffer.name,
                                         buffer.bytes, buffer.address_bytes));
  }

  // No two buffers that live together overlap: a sweep over addresses.
  void buffers() {
    std::vector<const BufferInfo*> sorted;
    for (const BufferInfo& buffer : code_.buffers)
      if (buffer.bytes > 0) sorted.push_back(&buffer);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto* a, const auto* b) { return a->address_bytes < b->address_bytes; });
    for (std::size_t i = 0; i < sorted.size(); ++i)
      for (std::size_t j = i + 1;
           j < sorted.size() && sorted[j]->address_bytes < sorted[i]->address_bytes + sorted[i]->bytes; ++j)
        if (sorted[i]->first_stage < sorted[j]->last_stage && sorted[j]->first_stage < sorted[i]->last_stage)
          add("buffer.disjoint", fmt::format("\"{}\" and \"{}\" overlap at {:#x} while both live", sorted[i]->name,
                                             sorted[j]->name, sorted[j]->address_bytes));
  }

  void code() {
    std::map<std::uint32_t, std::uint32_t> entries;
    for (const KernelEntry& entry : code_.entries) entries[entry.address_bytes] = entry.kernel;
    std::array<std::int64_t, 16> registers{};
    registers.fill(-1);  // unknown
    registers[15] = 0;
    const std::span<const std::uint32_t> words(code_.code);
    for (std::size_t word = (code_.entry_bytes - code_.code_address_bytes) / 4; word < words.size();) {
      const Instruction instruction = decode(words.subspan(word));
      const std::uint32_t pc = code_.code_address_bytes + static_cast<std::uint32_t>(word) * 4;
      switch (instruction.opcode) {
        case Opcode::unknown:
          return add("code.decodes", fmt::format("the word {:#010x} at {:#x} is no instruction", words[word], pc));
        case Opcode::trap: return;  // the end of the program; rows follow
        case Opcode::setzi: registers[instruction.d] = instruction.immediate; break;
        case Opcode::add: registers[instruction.d] = -1; break;
        case Opcode::ld32:
        case Opcode::and_:
        case Opcode::shl:
        case Opcode::get: registers[instruction.d] = -1; break;
        case Opcode::brz: check_target(pc, static_cast<std::uint32_t>(instruction.immediate)); break;
        case Opcode::call: check_call(pc, static_cast<std::uint32_t>(instruction.immediate), entries, registers); break;
        default: break;
      }
      word += static_cast<std::size_t>(instruction.words());
    }
    add("code.ends", "the supervisor program has no end (trap)");
  }

  void check_target(std::uint32_t pc, std::uint32_t target) {
    if (target < code_.code_address_bytes || target >= code_end())
      add("code.branches", fmt::format("the branch at {:#x} leads to {:#x}, outside its code", pc, target));
  }

  void check_call(std::uint32_t pc, std::uint32_t target, const std::map<std::uint32_t, std::uint32_t>& entries,
                  const std::array<std::int64_t, 16>& registers) {
    if (const auto entry = entries.find(target); entry != entries.end())
      return check_operands(pc, entry->second, registers);
    if (target < code_.code_address_bytes || target >= code_end())
      return add("code.calls",
                 fmt::format("the call at {:#x} leads to {:#x}, where neither a kernel nor code lies", pc, target));
    const Result<DecodedRow> row = decode_row(std::span(code_.code).subspan((target - code_.code_address_bytes) / 4));
    if (!row) add("row.decodes", fmt::format("the row at {:#x}: {}", target, row.error().message));
  }

  void check_operands(std::uint32_t pc, std::uint32_t kernel, const std::array<std::int64_t, 16>& registers) {
    const std::string name = describe(program_.kernels[kernel]);
    for (const Operand& operand : operands_[kernel]) {
      const std::int64_t address = registers[operand.register_number];
      if (address < 0) continue;  // moves with the iteration
      const auto at = static_cast<std::uint32_t>(address);
      if (operand.bytes > sram_.capacity_bytes() || !sram_.contains(at, static_cast<std::uint32_t>(operand.bytes)))
        add("kernel.operand_bounds",
            fmt::format("{} called at {:#x}: operand \"{}\" of {} bytes at {:#x} leaves the SRAM", name, pc,
                        operand.name, operand.bytes, at));
      if (at % static_cast<std::uint32_t>(operand.alignment_bytes) != 0)
        add("kernel.operand_alignment", fmt::format("{} called at {:#x}: operand \"{}\" at {:#x} is no multiple of {}",
                                                    name, pc, operand.name, at, operand.alignment_bytes));
      if (operand.region1_required && sram_.region_of(at) != 1)
        add("kernel.operand_region", fmt::format("{} called at {:#x}: operand \"{}\" at {:#x} must lie in region 1",
                                                 name, pc, operand.name, at));
      for (const Operand& other : operands_[kernel]) {
        const std::int64_t other_address = registers[other.register_number];
        if (other.register_number != operand.separate_from_register || other_address < 0 || operand.bytes == 0 ||
            other.bytes == 0 || !found_.empty())
          continue;
        const auto bt = static_cast<std::uint32_t>(other_address);
        if (sram_.element_of(at) <= sram_.element_of(bt + static_cast<std::uint32_t>(other.bytes) - 1) &&
            sram_.element_of(bt) <= sram_.element_of(at + static_cast<std::uint32_t>(operand.bytes) - 1))
          add("kernel.operand_elements",
              fmt::format("{} called at {:#x}: operands \"{}\" and \"{}\" share an SRAM element", name, pc,
                          operand.name, other.name));
      }
    }
  }

  const Program& program_;
  const SramMap& sram_;
  std::uint32_t tile_;
  const TileProgram& code_;
  const std::vector<std::vector<Operand>>& operands_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> verify(const Program& program) {
  std::vector<Violation> found;
  if (static_cast<int>(program.tiles.size()) != program.machine.tiles)
    return {
        {"program.tiles", fmt::format("{} tile programs for {} tiles", program.tiles.size(), program.machine.tiles)}};
  std::vector<std::vector<Operand>> kernel_operands;
  for (const KernelParams& params : program.kernels) {
    if (const Status status = check(params); !status) return {{"kernel.params", status.error().message}};
    kernel_operands.push_back(operands(params));
  }
  for (const ParameterImage& image : program.parameters) {
    if (!program.machine.sram.contains(image.address_bytes, image.bytes) ||
        static_cast<int>(image.tile) >= program.machine.tiles)
      found.push_back({"parameters.bounds", fmt::format("tile {}: parameters of {} bytes at {:#x} leave the SRAM",
                                                        image.tile, image.bytes, image.address_bytes)});
    if (program.has_weights && image.data.size() != image.bytes)
      found.push_back({"parameters.complete", fmt::format("tile {}: {} of {} bytes of parameters", image.tile,
                                                          image.data.size(), image.bytes)});
  }
  std::vector<std::vector<Violation>> by_tile(program.tiles.size());
  parallel_for(by_tile.size(), [&](std::size_t tile) {
    by_tile[tile] = TileChecker(program, static_cast<std::uint32_t>(tile), kernel_operands).run();
  });
  for (std::vector<Violation>& list : by_tile) found.insert(found.end(), list.begin(), list.end());
  return found;
}

}  // namespace tw::hw
