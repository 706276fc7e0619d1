// runtime/report/views.h: the sections of the page, each a function from figures to HTML. Internal to report.
#pragma once
#include <optional>
#include <string>

#include "runtime/report/figures.h"
#include "runtime/session/session.h"

namespace tw::runtime {

struct ReportInput {
  const hw::Program& program;
  const sim::RunResult& run;
  const std::optional<ReferenceReport>& reference;
  const Figures& figures;
};

std::string summary_view(const ReportInput& input);   // cards, a fault if there was one
std::string cycles_view(const ReportInput& input);    // by phase kind and by operation
std::string timeline_view(const ReportInput& input);  // stages in program order
std::string chip_view(const ReportInput& input);      // maps of memory, work and traffic over the chip
std::string memory_view(const ReportInput& input);    // one tile's addresses over stages
std::string errors_view(const ReportInput& input);    // against the references
std::string page_data(const ReportInput& input);      // JSON for the page's script

}  // namespace tw::runtime
