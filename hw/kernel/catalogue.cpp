#include "hw/kernel/catalogue.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "hw/base/text.h"
#include "hw/base/units.h"

namespace tw::hw {
namespace {

constexpr std::array<const KernelSpec*, kernel_kinds> specs{&gemm_spec,
                                                            &reduce_spec,
                                                            &gelu_spec,
                                                            &unary_spec,
                                                            &binary_spec,
                                                            &cast_spec,
                                                            &statistics_spec,
                                                            &normalise_spec,
                                                            &softmax_spec,
                                                            &attention_softmax_spec,
                                                            &attention_merge_spec,
                                                            &row_reduce_spec,
                                                            &fill_spec,
                                                            &copy_spec};

Status require(bool holds, const KernelParams& params, const char* field, std::int64_t value, const char* allowed) {
  if (holds) return {};
  return fail(ErrorKind::bad_input, fmt::format("kernel {}: {} is {}; {}", name_of(params.kind), field, value, allowed),
              {{"kernel", name_of(params.kind)}, {"field", field}});
}

constexpr std::int32_t largest_extent = 1 << 22;  // more elements than a tile has bytes

}  // namespace

const KernelSpec& spec_of(KernelKind kind) { return *specs[static_cast<std::size_t>(kind)]; }

const char* name_of(KernelKind kind) { return spec_of(kind).name; }

Result<KernelKind> kernel_from(std::string_view name) {
  std::vector<std::string> names;
  for (int kind = 0; kind < kernel_kinds; ++kind) {
    if (name == specs[kind]->name) return static_cast<KernelKind>(kind);
    names.emplace_back(specs[kind]->name);
  }
  return fail(ErrorKind::usage, fmt::format("kernel \"{}\" is not in the catalogue{}", name, did_you_mean(name, names)),
              {}, "kernels: " + join(names, ", "));
}

std::vector<Operand> operands(const KernelParams& params) { return spec_of(params.kind).operands(params); }

std::int64_t cycles(const KernelParams& params, const Machine& machine) {
  return static_cast<std::int64_t>(std::ceil(spec_of(params.kind).cycles(params, machine) - 1e-6));
}

std::int64_t flops(const KernelParams& params) { return static_cast<std::int64_t>(spec_of(params.kind).flops(params)); }

const char* price_source(const KernelParams& params) { return spec_of(params.kind).source; }

double price_error_fraction(KernelKind kind) { return spec_of(kind).error_fraction; }

std::uint32_t family_code_bytes(KernelKind, const Machine& machine) { return machine.code.family_bytes; }

std::uint32_t entry_code_bytes(const KernelParams&, const Machine& machine) { return machine.code.entry_bytes; }

std::int64_t panel_bytes(std::int64_t rows, std::int64_t columns, std::int64_t stride, NumberFormat format) {
  const std::int64_t panels = ceil_div(columns, panel_width(format));
  if (panels == 0 || rows == 0) return 0;
  return ((panels - 1) * stride + rows) * panel_width(format) * bytes_of(format);
}

Status check(const KernelParams& p) {
  const auto in_range = [&](const char* field, std::int64_t value, std::int64_t low) {
    return require(value >= low && value <= largest_extent, p, field, value,
                   low > 0 ? "allowed are 1 to 4,194,304" : "allowed are 0 to 4,194,304");
  };
  const bool by_elements = p.kind == KernelKind::gelu || p.kind == KernelKind::fill || p.kind == KernelKind::copy;
  if (p.kind != KernelKind::gelu) TW_TRY_STATUS(in_range("rows", p.rows, 1));
  if (by_elements) {
    TW_TRY_STATUS(in_range("elements", p.elements, 1));
  } else {
    TW_TRY_STATUS(in_range("columns", p.columns, 1));
  }
  if (!by_elements) {
    TW_TRY_STATUS(require(p.row_stride >= p.rows || p.row_stride == 0, p, "row_stride", p.row_stride,
                          "it must be at least the rows"));
    TW_TRY_STATUS(require(p.out_row_stride >= p.rows || p.out_row_stride == 0, p, "out_row_stride", p.out_row_stride,
                          "it must be at least the rows"));
  }
  TW_TRY_STATUS(in_range("row_stride", p.row_stride, 0));
  TW_TRY_STATUS(in_range("out_row_stride", p.out_row_stride, 0));
  TW_TRY_STATUS(in_range("coefficient_stride", p.coefficient_stride, 0));
  TW_TRY_STATUS(require(p.partials >= 1 && p.partials <= 4096, p, "partials", p.partials, "allowed are 1 to 4,096"));
  TW_TRY_STATUS(require(p.groups >= 1 && p.groups <= 4096, p, "groups", p.groups, "allowed are 1 to 4,096"));
  TW_TRY_STATUS(require(p.scale_exponent >= -32 && p.scale_exponent <= 30, p, "scale_exponent", p.scale_exponent,
                        "allowed are -32 to 30"));
  const auto stored = [&](NumberFormat format) {
    return static_cast<int>(format) <= static_cast<int>(NumberFormat::f152);
  };
  TW_TRY_STATUS(require(stored(p.format) && stored(p.out_format), p, "format", static_cast<int>(p.format),
                        "it is one of f32, f16, f143, f152"));
  if (p.kind == KernelKind::gemm) {
    const int g = panel_width(p.format);
    TW_TRY_STATUS(in_range("inner", p.inner, 1));
    TW_TRY_STATUS(require(p.inner % g == 0, p, "inner", p.inner,
                          g == 32 ? "it must be a multiple of 32 in FP8" : "it must be a multiple of 16"));
    TW_TRY_STATUS(require(p.columns % 16 == 0, p, "columns", p.columns, "it must be a multiple of 16"));
    TW_TRY_STATUS(require(p.out_format == (p.format == NumberFormat::f32 ? NumberFormat::f32 : NumberFormat::f16), p,
                          "out_format", static_cast<int>(p.out_format),
                          "it is f32 for f32 operands and f16 for the others"));
    if (p.coefficient_form == CoefficientForm::row)
      TW_TRY_STATUS(require(p.coefficient_stride >= p.columns, p, "coefficient_stride", p.coefficient_stride,
                            "it must be at least the columns"));
    if (p.coefficient_form == CoefficientForm::block)
      TW_TRY_STATUS(require(p.coefficient_stride >= p.inner, p, "coefficient_stride", p.coefficient_stride,
                            "it must be at least the inner extent"));
  }
  if (p.kind == KernelKind::layer_norm_apply) {
    TW_TRY_STATUS(require(p.group >= 0 && p.group < p.groups, p, "group", p.group, "it must be below the groups"));
    TW_TRY_STATUS(in_range("total_columns", p.total_columns, 1));
    TW_TRY_STATUS(
        require(p.column_unit == 16 || p.column_unit == 32, p, "column_unit", p.column_unit, "it is 16 or 32"));
  }
  if (p.kind == KernelKind::attention_softmax)
    TW_TRY_STATUS(require(p.out_format == p.format || p.out_format == NumberFormat::f143, p, "out_format",
                          static_cast<int>(p.out_format), "it is the format of the scores, or f143"));
  if (p.kind == KernelKind::cast) {
    const bool to_f8 = bytes_of(p.out_format) == 1;
    TW_TRY_STATUS(require(p.out_panel == 0 || (p.out_panel == 16 && to_f8), p, "out_panel", p.out_panel,
                          "it is 0, or 16 for casts to FP8"));
    TW_TRY_STATUS(require(p.out_group == 0 || (p.out_group > 0 && p.out_group <= 32 && to_f8 && p.out_panel == 0), p,
                          "out_group", p.out_group, "it is 0, or 1 to 32 for casts to FP8 panels of 32"));
  }
  if (p.kind == KernelKind::attention_merge) {
    TW_TRY_STATUS(require(p.column_offset >= 0 && p.column_offset < 16, p, "column_offset", p.column_offset,
                          "allowed are 0 to 15"));
    TW_TRY_STATUS(require(p.group >= 0 && p.group < p.partials, p, "group", p.group, "it must be below the partials"));
  }
  if (p.kind == KernelKind::fill)
    TW_TRY_STATUS(require(p.elements % 8 == 0, p, "elements", p.elements, "it must be a multiple of 8 bytes"));
  if (p.kind == KernelKind::copy)
    TW_TRY_STATUS(require(p.elements % 4 == 0, p, "elements", p.elements, "it must be a multiple of 4 bytes"));
  return {};
}

std::string describe(const KernelParams& p) {
  switch (p.kind) {
    case KernelKind::gemm: return fmt::format("gemm {} {}x{}x{}", name_of(p.format), p.rows, p.inner, p.columns);
    case KernelKind::reduce:
    case KernelKind::attention_merge:
      return fmt::format("{} {} {}x{}, {} partials", name_of(p.kind), name_of(p.format), p.rows, p.columns, p.partials);
    case KernelKind::gelu: return fmt::format("gelu {} {} elements", name_of(p.format), p.elements);
    case KernelKind::fill:
    case KernelKind::copy: return fmt::format("{} {} x {} bytes", name_of(p.kind), p.rows, p.elements);
    case KernelKind::cast:
      return fmt::format("cast {} to {} {}x{}", name_of(p.format), name_of(p.out_format), p.rows, p.columns);
    default: return fmt::format("{} {} {}x{}", name_of(p.kind), name_of(p.format), p.rows, p.columns);
  }
}

}  // namespace tw::hw
