// tests/simulator/calibration/calibration_test.cpp: the measured rows, the limits of their errors, and bad rows.
#include "simulator/calibration/calibration.h"

#include <gtest/gtest.h>

#include "hw/base/file.h"

namespace tw::sim {
namespace {

const hw::Machine& ipu21() {
  static const hw::Machine machine = *hw::load_machine("ipu21");
  return machine;
}

std::int64_t simulated(const CalibrationRow& row) {
  const auto cycles = simulate_row(row, ipu21());
  EXPECT_TRUE(cycles) << (cycles ? "" : cycles.error().message);
  return cycles ? *cycles : 0;
}

// A constant that is changed without looking at the measurements ends here.
TEST(Calibration, MeasuredRowsStayWithinTheirErrors) {
  const auto text = read_text_file(TW_SOURCE_DIR "/bench/calibration/ipu21.csv");
  ASSERT_TRUE(text);
  const auto rows = read_calibration_csv(*text, "ipu21.csv");
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_GE(rows->size(), 29U);
  std::vector<std::int64_t> cycles;
  for (const CalibrationRow& row : *rows) cycles.push_back(simulated(row));
  for (const auto& [name, kind] : summarise(*rows, cycles).kinds) {
    // Measured in one fused call; the catalogue has the two passes (docs/fidelity.md).
    const double mean = name == "layer_norm" ? 0.14 : name == "softmax" ? 0.023 : name == "phase" ? 0.005 : 0.01;
    const double worst = name == "layer_norm" ? 0.14 : name == "softmax" ? 0.045 : 0.022;
    EXPECT_LE(kind.mean_abs_error, mean) << name;
    EXPECT_LE(kind.worst_abs_error, worst) << name;
  }
}

TEST(Calibration, ACallCostsItsPriceAndOneInstruction) {
  // 294 + 4 * 4 * (4 * 244 + 160) and the call.
  EXPECT_EQ(simulated({.name = "g", .kind = "gemm", .rows = 244, .inner = 128, .columns = 64, .precision = "f8"}),
            294 + 4 * 4 * (4 * 244 + 160) + 6);
}

// Base set-up, call and return of six cycles each, the barrier, and the events.
TEST(Calibration, APhaseCostsItsEventsAndItsOverhead) {
  const std::int64_t one = simulated({.name = "p", .kind = "phase", .rows = 1000});
  EXPECT_EQ(simulated({.name = "p", .kind = "phase", .rows = 9000}) - one, 8000);
  EXPECT_GT(one, 1000 + 190);
  EXPECT_LT(one, 1000 + 260);
}

std::string message(const std::string& text) {
  const auto rows = read_calibration_csv(text, "x.csv");
  return rows ? "no error" : rows.error().message;
}

TEST(Calibration, BadRowsNameTheirLine) {
  EXPECT_EQ(message("name,kind,rows\n"), "x.csv line 1: there is no column \"measured_cycles\"");
  EXPECT_EQ(message("name,kind,rows,measured_cycles\n"), "x.csv line 1: there is no row");
  EXPECT_EQ(message("name,kind,rows,measured_cycles\na,gemm,x,5\n"),
            "x.csv line 2: rows: \"x\" is no whole number of 0 to 1,000,000,000");
  EXPECT_NE(message("name,kind,rows,measured_cycles\na,gem,1,5\n").find("did you mean \"gemm\""), std::string::npos);
  EXPECT_EQ(message("name,kind,rows,measured_cycles\na,gemm,1,0\n"),
            "x.csv line 2: measured_cycles: a whole number of at least 1 is expected");
  EXPECT_NE(message("name,kind,rows,measured_cycles,precision\na,gemm,1,5,f7\n").find("f8, f16 or f32"),
            std::string::npos);
  // Columns in any order, unknown ones ignored, empty cells.
  EXPECT_EQ(message("measured_cycles,source,rows,kind,name\n5,me,1,phase,a\n\n"), "no error");
}

TEST(Calibration, ImpossibleExtentsNameTheRow) {
  const auto cycles = simulate_row(
      {.name = "odd", .kind = "gemm", .rows = 8, .inner = 17, .columns = 16, .precision = "f8", .line = 4}, ipu21());
  ASSERT_FALSE(cycles);
  EXPECT_NE(cycles.error().message.find("row \"odd\" (line 4)"), std::string::npos) << cycles.error().message;
  EXPECT_FALSE(simulate_row({.name = "big", .kind = "gemm", .rows = 100000, .inner = 1024, .columns = 16}, ipu21()));
  EXPECT_FALSE(simulate_row({.name = "none", .kind = "phase"}, ipu21()));
}

}  // namespace
}  // namespace tw::sim
