// compiler/emit/parameters.cpp: packs parameters into the bytes of their homes.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "compiler/emit/emit.h"
#include "hw/base/parallel.h"
#include "hw/base/units.h"
#include "hw/number/number.h"

namespace tw::compiler {
namespace {

std::int64_t flat_of(const std::vector<hw::ViewDim>& dims, std::int64_t index) {
  std::int64_t flat = 0;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    flat += index % dim->size * dim->stride;
    index /= dim->size;
  }
  return flat;
}

// Flat contributions of stored indices [begin, end); -1 at pads.
std::vector<std::int64_t> stored_flats(const std::vector<hw::ViewDim>& dims, const hw::ColumnGroups& groups,
                                       std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> flats;
  for (std::int64_t stored = begin; stored < end; ++stored) {
    const std::int64_t real = groups.column_of(stored);
    flats.push_back(real < 0 ? -1 : flat_of(dims, real));
  }
  return flats;
}

void pack_weights(const PackJob& job, const PackTarget& target, std::span<const float> values,
                  std::span<std::byte> out) {
  const std::int64_t g = hw::panel_width(job.format);
  const std::int64_t panels_inner = (target.inner_end - target.inner_begin) / g;
  const auto inner = stored_flats(job.view.row_dims, job.inner_groups, target.inner_begin, target.inner_end);
  const auto columns = stored_flats(job.view.column_dims, job.groups, target.column_begin, target.column_end);
  std::vector<float> panel(static_cast<std::size_t>(16 * g));
  const std::size_t panel_bytes = panel.size() * hw::bytes_of(job.format);
  for (std::int64_t p = target.row_begin; p < target.row_end; ++p) {
    const std::int64_t column0 = p / panels_inner * 16, inner0 = p % panels_inner * g;
    for (std::int64_t j = 0; j < 16; ++j)
      for (std::int64_t k = 0; k < g; ++k) {
        const std::int64_t at_inner = inner[inner0 + k], at_column = columns[column0 + j];
        panel[j * g + k] = at_inner < 0 || at_column < 0 ? 0.0F : values[job.view.offset + at_inner + at_column];
      }
    hw::encode(job.format, panel, job.scale_exponent,
               out.subspan(static_cast<std::size_t>(p - target.row_begin) * panel_bytes, panel_bytes));
  }
}

void pack_panels(const PackJob& job, const PackTarget& target, std::span<const float> values,
                 std::span<std::byte> out) {
  const std::int64_t width =
      job.kind == PackKind::vector ? target.column_end - target.column_begin : hw::panel_width(job.format);
  const std::int64_t rows = target.row_end - target.row_begin;
  const auto columns = stored_flats(job.view.column_dims, job.groups, target.column_begin, target.column_end);
  std::vector<float> block(static_cast<std::size_t>(rows) * columns.size(), 0.0F);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = job.view.offset + flat_of(job.view.row_dims, target.row_begin + i);
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(columns.size()); ++j)
      if (columns[j] >= 0) block[(j / width * rows + i) * width + j % width] = values[row + columns[j]];
  }
  hw::encode(job.format, block, job.scale_exponent, out.first(block.size() * hw::bytes_of(job.format)));
}

}  // namespace

Status pack_parameters(const Graph& graph, const Lowered& lowered, const Addresses& addresses,
                       const hw::Machine& machine, std::vector<hw::ParameterImage>& images, bool with_data,
                       const Progress& progress) {
  // Image of a tile: the static parameters, then the records of each Repeat; index [set][tile].
  std::vector<std::vector<std::int32_t>> image_of(1 + lowered.repeats.size(),
                                                  std::vector<std::int32_t>(machine.tiles, -1));
  for (std::size_t set = 0; set < image_of.size(); ++set) {
    const BufferId buffer = set == 0 ? lowered.parameters : lowered.repeats[set - 1].records;
    const std::uint32_t bytes = lowered.buffers[buffer].max_bytes();
    if (bytes == 0) continue;
    for (int tile = 0; tile < machine.tiles; ++tile) {
      image_of[set][tile] = static_cast<std::int32_t>(images.size());
      hw::ParameterImage image{
          .tile = static_cast<std::uint32_t>(tile), .address_bytes = addresses.buffer[buffer], .bytes = bytes};
      if (with_data) image.data.resize(bytes);
      images.push_back(std::move(image));
    }
  }
  if (!with_data) return {};

  struct Item {
    const PackJob* job;
    std::int64_t iteration;
  };
  std::vector<Item> items;
  for (const PackJob& job : lowered.packs)
    for (std::size_t iteration = 0; iteration < job.values.size(); ++iteration)
      items.push_back({&job, static_cast<std::int64_t>(iteration)});
  std::vector<Status> statuses(items.size());
  std::atomic<std::int64_t> done = 0;
  std::mutex progress_mutex;
  // Each item writes its own bytes of the images: targets of different jobs and iterations are disjoint.
  parallel_for(items.size(), [&](std::size_t index) {
    const auto& [job, iteration] = items[index];
    const Value& value = graph.value(job->values[iteration]);
    std::vector<float> values(static_cast<std::size_t>(elements_of(value.shape)));
    statuses[index] = value.source->read(values);
    if (!statuses[index]) return;
    const std::size_t set = job->repeat < 0 ? 0 : 1 + static_cast<std::size_t>(job->repeat);
    const std::uint32_t record = job->repeat < 0 ? 0 : lowered.repeats[job->repeat].record_bytes;
    for (const PackTarget& target : job->targets) {
      hw::ParameterImage& image = images[image_of[set][target.tile]];
      const std::span<std::byte> out = std::span(image.data).subspan(target.offset_bytes + iteration * record);
      job->kind == PackKind::weights ? pack_weights(*job, target, values, out) : pack_panels(*job, target, values, out);
    }
    if (progress) {
      const std::lock_guard lock(progress_mutex);
      progress("pack parameters", ++done, static_cast<std::int64_t>(items.size()));
    }
  });
  for (Status& status : statuses)
    if (!status) return std::move(status);
  return {};
}

}  // namespace tw::compiler
