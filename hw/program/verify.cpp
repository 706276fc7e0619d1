// hw/program/verify.cpp: checks a program independently of the compiler that made it. Rules: docs/reference/rules.md.
#include "hw/program/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "hw/base/parallel.h"
#include "hw/program/package.h"

namespace tw::hw {
namespace {

constexpr ProgramRule rules[] = {
    {"program.tiles", "there is one tile program a tile of the machine"},
    {"program.stages", "loops begin and end in pairs and do not nest; counts are at least 1"},
    {"kernel.params", "the parameters of every kernel satisfy the catalogue"},
    {"parameters.bounds", "a parameter image lies inside the SRAM of its tile"},
    {"parameters.complete", "a package with weights has every byte of its images"},
    {"binding.blocks", "every block of an input or output lies inside the SRAM, at a multiple of 8"},
    {"binding.host_buffer", "host blocks start at multiples of 64, lie inside the buffer and do not overlap"},
    {"checkpoint.blocks", "a checkpoint names a stage; its blocks lie inside the SRAM"},
    {"code.region", "code lies inside region 0"},
    {"code.entry", "the entry is an instruction of the code"},
    {"kernel.known", "a kernel entry names a kernel"},
    {"kernel.entry", "a kernel entry lies in region 0, outside the code, and no two share an address"},
    {"segment.bounds", "a segment lies inside the SRAM"},
    {"load.disjoint", "code, segments and parameters of a tile do not overlap"},
    {"origin.known", "origins name stages and lie inside the code"},
    {"buffer.bounds", "a buffer lies inside the SRAM, its stages exist"},
    {"buffer.disjoint", "two buffers that live in the same stage do not overlap"},
    {"buffer.code", "no buffer of values, operands or parameters overlaps code"},
    {"buffer.parameters", "no other buffer overlaps a parameter image, whenever it lives"},
    {"code.decodes", "every word that is reached is an instruction of a supervisor program"},
    {"code.branches", "branches lead to known addresses inside the code"},
    {"code.calls", "calls lead to a kernel entry or into the code"},
    {"code.ends", "the program reaches a trap"},
    {"row.decodes", "every called row decodes up to its br m10"},
    {"row.send_bounds", "sends of rows read inside the SRAM"},
    {"row.receive_bounds", "receptions write inside the SRAM, not over code or parameters"},
    {"host.send_bounds", "host packets are read inside the SRAM"},
    {"kernel.operand_known", "operands of a call have known addresses"},
    {"kernel.operand_bounds", "operands lie inside the SRAM"},
    {"kernel.operand_alignment", "operands are aligned as the kernel asks"},
    {"kernel.operand_region", "outputs that must be in region 1 are there"},
    {"kernel.operand_elements", "operands that must not share an SRAM element do not"},
    {"kernel.writes_code", "a kernel does not write over the program"},
    {"kernel.writes_parameters", "a kernel does not write over parameters"},
};

struct Range {
  std::uint64_t from = 0, bytes = 0;
  const char* what = "";
};
bool overlap(const Range& a, const Range& b) { return a.from < b.from + b.bytes && b.from < a.from + a.bytes; }

// The checks of one tile that do not follow its program.
class TileChecker {
 public:
  TileChecker(const Program& program, const TileImages& images, TileFindings& findings)
      : program_(program),
        sram_(program.machine.sram),
        tile_(program.tiles[findings.tile]),
        images_(images),
        findings_(findings),
        code_{tile_.code_address_bytes, tile_.code.size() * 4, "code"} {}

  // True when the program can be followed.
  bool run() {
    if (!code_place()) return false;
    entries();
    loaded();
    origins();
    buffers();
    return findings_.list.empty();
  }

 private:
  bool inside(std::uint32_t address, std::uint64_t bytes) const {
    return bytes <= sram_.capacity_bytes() && sram_.contains(address, static_cast<std::uint32_t>(bytes));
  }

  bool code_place() {
    if (!inside(tile_.code_address_bytes, code_.bytes) || code_.from + code_.bytes > sram_.region1_base() ||
        code_.from % 4 != 0) {
      findings_.add("code.region", fmt::format("code of {} bytes at {:#x} leaves region 0", code_.bytes, code_.from));
      return false;
    }
    if (tile_.entry_bytes >= code_.from && tile_.entry_bytes < code_.from + code_.bytes && tile_.entry_bytes % 4 == 0)
      return true;
    findings_.add("code.entry", fmt::format("the entry {:#x} is no instruction of its code", tile_.entry_bytes));
    return false;
  }

  void entries() {
    std::set<std::uint32_t> addresses;
    for (const KernelEntry& entry : tile_.entries) {
      const std::uint32_t at = entry.address_bytes;
      if (entry.kernel >= program_.kernels.size())
        findings_.add("kernel.known",
                      fmt::format("entry {:#x} names kernel {} of {}", at, entry.kernel, program_.kernels.size()));
      if (!inside(at, 4) || sram_.region_of(at) != 0 || overlap(code_, {at, 4}) || !addresses.insert(at).second)
        findings_.add(
            "kernel.entry",
            fmt::format("a kernel entry at {:#x} lies outside region 0, inside the code, or on another entry", at));
    }
  }

  void loaded() {
    std::vector<Range> ranges{code_};
    for (const Segment& segment : tile_.segments) {
      if (!inside(segment.address_bytes, segment.bytes.size()))
        findings_.add("segment.bounds", fmt::format("a segment of {} bytes at {:#x} leaves the SRAM",
                                                    segment.bytes.size(), segment.address_bytes));
      ranges.push_back({segment.address_bytes, segment.bytes.size(), "a segment"});
    }
    for (const ParameterImage* image : images_) ranges.push_back({image->address_bytes, image->bytes, "parameters"});
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.from < b.from; });
    for (std::size_t i = 1; i < ranges.size(); ++i)
      if (overlap(ranges[i - 1], ranges[i]))
        findings_.add("load.disjoint",
                      fmt::format("{} and {} overlap at {:#x}", ranges[i - 1].what, ranges[i].what, ranges[i].from));
  }

  void origins() {
    for (const CodeOrigin& origin : tile_.origins)
      if (origin.stage.value >= program_.stages.size() ||
          std::uint64_t{origin.first_word} + origin.words > tile_.code.size())
        findings_.add("origin.known", fmt::format("words {} to {} of {} belong to stage {} of {}", origin.first_word,
                                                  std::uint64_t{origin.first_word} + origin.words, tile_.code.size(),
                                                  origin.stage.value, program_.stages.size()));
  }

  void over_parameters(const BufferInfo& buffer) {
    for (const ParameterImage* image : images_)
      if (overlap({image->address_bytes, image->bytes}, {buffer.address_bytes, buffer.bytes}))
        findings_.add("buffer.parameters",
                      fmt::format("buffer \"{}\" of {} bytes at {:#x} overlaps {} bytes of parameters at {:#x}",
                                  buffer.name, buffer.bytes, buffer.address_bytes, image->bytes, image->address_bytes));
  }

  // No two buffers that live together overlap: a sweep over addresses.
  void buffers() {
    std::vector<const BufferInfo*> sorted;
    const auto stages = static_cast<std::int32_t>(program_.stages.size());
    for (const BufferInfo& buffer : tile_.buffers) {
      if (!inside(buffer.address_bytes, buffer.bytes) || buffer.first_stage < 0 ||
          buffer.first_stage > buffer.last_stage || buffer.last_stage > stages)
        findings_.add(
            "buffer.bounds",
            fmt::format(
                "buffer \"{}\" of {} bytes at {:#x}, stages {} to {}, leaves the SRAM or the program's {} stages",
                buffer.name, buffer.bytes, buffer.address_bytes, buffer.first_stage, buffer.last_stage, stages));
      const bool data = buffer.use == BufferInfo::Use::value || buffer.use == BufferInfo::Use::operand ||
                        buffer.use == BufferInfo::Use::parameter;
      if (data && buffer.bytes > 0 && overlap(code_, {buffer.address_bytes, buffer.bytes}))
        findings_.add("buffer.code", fmt::format("buffer \"{}\" of {} bytes at {:#x} overlaps code", buffer.name,
                                                 buffer.bytes, buffer.address_bytes));
      if (buffer.use != BufferInfo::Use::parameter && buffer.bytes > 0) over_parameters(buffer);
      if (buffer.bytes > 0) sorted.push_back(&buffer);
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto* a, const auto* b) { return a->address_bytes < b->address_bytes; });
    for (std::size_t i = 0; i < sorted.size(); ++i)
      for (std::size_t j = i + 1;
           j < sorted.size() && sorted[j]->address_bytes < std::uint64_t{sorted[i]->address_bytes} + sorted[i]->bytes;
           ++j)
        if (sorted[i]->first_stage < sorted[j]->last_stage && sorted[j]->first_stage < sorted[i]->last_stage)
          findings_.add("buffer.disjoint", fmt::format("\"{}\" and \"{}\" overlap at {:#x} while both live",
                                                       sorted[i]->name, sorted[j]->name, sorted[j]->address_bytes));
  }

  const Program& program_;
  const SramMap& sram_;
  const TileProgram& tile_;
  const TileImages& images_;
  TileFindings& findings_;
  Range code_;
};

void check_stages(const Program& program, std::vector<Violation>& found) {
  int depth = 0;
  bool sound = true;
  for (const StageInfo& stage : program.stages) {
    if (stage.kind == StageKind::loop_begin) ++depth;
    if (stage.kind == StageKind::loop_end) --depth;
    sound = sound && depth >= 0 && depth <= 1 && stage.iterations >= 1;
  }
  if (!sound || depth != 0)
    found.push_back({"program.stages", "loop stages are not in pairs, nest, or are repeated less than once"});
}

// Images by tile, for the checks of loading.
std::vector<TileImages> check_parameters(const Program& program, std::vector<Violation>& found) {
  std::vector<TileImages> images(program.tiles.size());
  for (const ParameterImage& image : program.parameters) {
    if (image.tile >= images.size() || image.bytes > program.machine.sram.capacity_bytes() ||
        !program.machine.sram.contains(image.address_bytes, image.bytes)) {
      found.push_back({"parameters.bounds", fmt::format("tile {}: parameters of {} bytes at {:#x} leave the SRAM",
                                                        image.tile, image.bytes, image.address_bytes)});
      continue;
    }
    images[image.tile].push_back(&image);
    if (program.has_weights && image.data.size() != image.bytes)
      found.push_back({"parameters.complete", fmt::format("tile {}: {} of {} bytes of parameters", image.tile,
                                                          image.data.size(), image.bytes)});
  }
  return images;
}

// Where the blocks of a layout leave their tiles, or nothing.
std::string misplaced(const Program& program, const TensorLayout& layout, const std::vector<std::uint32_t>& addresses) {
  if (layout.row_cuts.empty() || layout.column_cuts.empty() ||
      addresses.size() != static_cast<std::size_t>(layout.blocks()))
    return fmt::format("{} block addresses", addresses.size());
  for (int r = 0; r < layout.row_blocks(); ++r)
    for (int c = 0; c < layout.column_blocks(); ++c) {
      const std::int64_t bytes = layout.block_bytes(r, c);
      const std::uint32_t at = addresses[static_cast<std::size_t>(r * layout.column_blocks() + c)];
      if (bytes == 0) continue;
      if (layout.tile_of(r, c).value >= program.tiles.size() || bytes > program.machine.sram.capacity_bytes() ||
          !program.machine.sram.contains(at, static_cast<std::uint32_t>(bytes)) || at % 8 != 0)
        return fmt::format("block ({}, {}) of {} bytes at {:#x} on tile {}", r, c, bytes, at,
                           layout.tile_of(r, c).value);
    }
  return {};
}

void check_host_buffer(const Binding& binding, std::vector<Violation>& found) {
  constexpr std::uint64_t alignment = 64;
  std::vector<Range> ranges;
  bool sound = binding.block_offsets.size() == static_cast<std::size_t>(binding.layout.blocks());
  for (std::size_t block = 0; sound && block < binding.block_offsets.size(); ++block) {
    const int columns = binding.layout.column_blocks();
    const auto bytes = static_cast<std::uint64_t>(
        binding.layout.block_bytes(static_cast<int>(block) / columns, static_cast<int>(block) % columns));
    const std::uint64_t at = binding.block_offsets[block];
    sound = bytes == 0 || (at % alignment == 0 && at <= binding.bytes && bytes <= binding.bytes - at);
    if (bytes > 0) ranges.push_back({at, bytes, ""});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.from < b.from; });
  for (std::size_t i = 1; sound && i < ranges.size(); ++i) sound = !overlap(ranges[i - 1], ranges[i]);
  if (!sound)
    found.push_back(
        {"binding.host_buffer",
         fmt::format("\"{}\": host blocks leave their buffer of {} bytes, overlap, or are no multiples of 64",
                     binding.name, binding.bytes)});
}

void check_tensors(const Program& program, std::vector<Violation>& found) {
  for (const Binding& binding : program.bindings) {
    const std::string wrong = misplaced(program, binding.layout, binding.block_address_bytes);
    if (!wrong.empty()) {
      found.push_back({"binding.blocks", fmt::format("\"{}\": {} is misplaced", binding.name, wrong)});
    } else {
      check_host_buffer(binding, found);
    }
  }
  for (const Checkpoint& point : program.checkpoints) {
    const std::string wrong = misplaced(program, point.layout, point.block_address_bytes);
    if (!wrong.empty() || point.stage.value >= program.stages.size())
      found.push_back({"checkpoint.blocks", fmt::format("\"{}\": stage {}: {} is misplaced", point.value,
                                                        point.stage.value, wrong.empty() ? "the stage" : wrong)});
  }
}

}  // namespace

std::span<const ProgramRule> program_rules() { return rules; }

void TileFindings::add(const char* rule, const std::string& message) {
  list.push_back({rule, fmt::format("tile {}: {}", tile, message)});
}

std::vector<Violation> verify(const Program& program) {
  if (static_cast<int>(program.tiles.size()) != program.machine.tiles)
    return {
        {"program.tiles", fmt::format("{} tile programs for {} tiles", program.tiles.size(), program.machine.tiles)}};
  KernelOperands kernel_operands;
  for (const KernelParams& params : program.kernels) {
    if (const Status status = check(params); !status) return {{"kernel.params", status.error().message}};
    kernel_operands.push_back(operands(params));
  }
  std::vector<Violation> found;
  check_stages(program, found);
  const std::vector<TileImages> images = check_parameters(program, found);
  check_tensors(program, found);
  std::vector<TileFindings> by_tile(program.tiles.size());
  parallel_for(by_tile.size(), [&](std::size_t tile) {
    by_tile[tile].tile = static_cast<std::uint32_t>(tile);
    if (TileChecker(program, images[tile], by_tile[tile]).run())
      verify_code(program, kernel_operands, images[tile], by_tile[tile]);
  });
  for (TileFindings& findings : by_tile) found.insert(found.end(), findings.list.begin(), findings.list.end());
  return found;
}

}  // namespace tw::hw
