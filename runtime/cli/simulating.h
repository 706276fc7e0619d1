// runtime/cli/simulating.h: what simulate and report share: how a run is told.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "hw/program/program.h"
#include "simulator/system/simulation.h"

namespace tw::runtime {

void put_run(nlohmann::ordered_json& object, const hw::Program& program, const sim::RunResult& run);
void put_fault(nlohmann::ordered_json& object, std::string& text, const sim::Fault& fault);
std::string run_text(const hw::Program& program, const sim::RunResult& run);

}  // namespace tw::runtime
