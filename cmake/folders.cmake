# Every folder, what it may see, and the libraries it uses. Data flows one way: hw <- compiler, simulator <- runtime.
set(hw_machine_side hw/base hw/number hw/machine hw/fabric hw/isa hw/kernel hw/program)

tw_library(hw/base LIBRARIES PkgConfig::xxhash TBB::tbb OpenSSL::Crypto)
tw_library(hw/number SEES hw/base)
tw_library(hw/machine SEES hw/base)
tw_library(hw/fabric SEES hw/base hw/machine)
tw_library(hw/isa SEES hw/base hw/machine hw/fabric)
tw_library(hw/kernel SEES hw/base hw/number hw/machine)
tw_library(hw/program SEES hw/base hw/number hw/machine hw/fabric hw/isa hw/kernel LIBRARIES PkgConfig::zstd PkgConfig::xxhash)

# The package's tables are generated from their FlatBuffers schema.
set(program_header ${CMAKE_BINARY_DIR}/generated/program_generated.h)
add_custom_command(OUTPUT ${program_header}
  COMMAND ${flatc_program} --cpp --gen-object-api --scoped-enums -o ${CMAKE_BINARY_DIR}/generated ${CMAKE_SOURCE_DIR}/hw/program/program.fbs
  DEPENDS ${CMAKE_SOURCE_DIR}/hw/program/program.fbs VERBATIM)
add_custom_target(tw_program_schema DEPENDS ${program_header})
add_dependencies(tw_hw_program tw_program_schema)
target_include_directories(tw_hw_program SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated)

tw_library(compiler/graph SEES hw/base hw/number)
tw_library(compiler/canonical SEES compiler/graph hw/base hw/number)
tw_library(compiler/import SEES compiler/graph compiler/canonical hw/base hw/number LIBRARIES tw_onnx)
tw_library(compiler/layout SEES compiler/graph hw/base hw/number hw/machine hw/fabric hw/isa hw/kernel hw/program)
tw_library(compiler/plan SEES compiler/graph compiler/layout hw/base hw/number hw/machine hw/fabric hw/isa hw/kernel hw/program)
tw_library(compiler/search SEES compiler/graph compiler/layout compiler/plan hw/base hw/number hw/machine hw/fabric hw/isa hw/kernel hw/program)
tw_library(compiler/place SEES hw/base hw/machine)
tw_library(compiler/exchange SEES hw/base hw/machine hw/fabric hw/isa)
tw_library(compiler/lower SEES compiler/graph compiler/layout compiler/plan compiler/place compiler/exchange ${hw_machine_side})
tw_library(compiler/emit SEES compiler/graph compiler/layout compiler/plan compiler/place compiler/exchange compiler/lower ${hw_machine_side} LIBRARIES TBB::tbb)
set(compiler_side compiler/graph compiler/canonical compiler/import compiler/layout compiler/plan compiler/search
  compiler/place compiler/exchange compiler/lower compiler/emit)
tw_library(compiler/pipeline SEES ${compiler_side} ${hw_machine_side})

tw_library(simulator/kernels SEES hw/base hw/number hw/machine hw/kernel LIBRARIES TBB::tbb)
tw_library(simulator/system SEES simulator/kernels ${hw_machine_side} LIBRARIES tw_systemc TBB::tbb)

tw_library(simulator/calibration SEES simulator/system simulator/kernels ${hw_machine_side} LIBRARIES tw_systemc)
set(all_but_runtime compiler/pipeline ${compiler_side} simulator/calibration simulator/system simulator/kernels ${hw_machine_side})
tw_library(runtime/reference SEES compiler/graph compiler/plan compiler/layout ${hw_machine_side} LIBRARIES Eigen3::Eigen TBB::tbb)
tw_library(runtime/session SEES runtime/reference ${all_but_runtime} LIBRARIES Eigen3::Eigen)
tw_library(runtime/report SEES runtime/reference runtime/session ${all_but_runtime} LIBRARIES nlohmann_json::nlohmann_json)
tw_embed(tw_runtime_report HEADER runtime/report/assets.h NAMESPACE tw::runtime
  FILES runtime/report/assets/page.css:page_style runtime/report/assets/page.js:page_script)
tw_library(runtime/cli SEES runtime/reference runtime/session runtime/report ${all_but_runtime}
  LIBRARIES nlohmann_json::nlohmann_json Boost::program_options tw_systemc)
tw_embed(tw_runtime_cli HEADER runtime/cli/calibration_data.h NAMESPACE tw::runtime
  FILES bench/calibration/ipu21.csv:calibration_csv)

if(EXISTS ${CMAKE_SOURCE_DIR}/runtime/main.cpp)
  add_executable(tilewright runtime/main.cpp)
  tw_visible(tilewright runtime/cli hw/base)
  target_link_libraries(tilewright PRIVATE tw_runtime_cli)
  set_target_properties(tilewright PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endif()

if(TILEWRIGHT_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
  include(GoogleTest)
  tw_library(tests/support SEES ${hw_machine_side} LIBRARIES rapidcheck GTest::gtest)
  foreach(folder IN LISTS hw_machine_side)
    tw_test(${folder} SEES ${hw_machine_side} LIBRARIES rapidcheck)
  endforeach()
  foreach(folder IN LISTS compiler_side)
    tw_test(${folder} SEES ${compiler_side} ${hw_machine_side} LIBRARIES rapidcheck tw_onnx)
  endforeach()
  tw_test(compiler/pipeline SEES compiler/pipeline ${compiler_side} ${hw_machine_side} LIBRARIES rapidcheck)
  tw_test(simulator/kernels SEES simulator/kernels ${hw_machine_side} LIBRARIES rapidcheck)
  tw_test(simulator/calibration SEES simulator/calibration simulator/system simulator/kernels ${hw_machine_side}
    LIBRARIES rapidcheck tw_systemc)
  tw_test(simulator/system SEES simulator/system simulator/kernels ${hw_machine_side} LIBRARIES rapidcheck tw_systemc)
  foreach(folder IN ITEMS reference session report)
    tw_test(runtime/${folder} SEES runtime/reference runtime/session runtime/report ${all_but_runtime}
      LIBRARIES rapidcheck nlohmann_json::nlohmann_json tw_systemc)
  endforeach()
  # Whole chain: graphs through compiler, package and simulator against the references.
  tw_test(chain SEES runtime/reference runtime/session ${all_but_runtime} LIBRARIES rapidcheck tw_systemc)
  if(EXISTS ${CMAKE_SOURCE_DIR}/tests/cli/CMakeLists.txt)
    add_subdirectory(tests/cli)
  endif()
endif()

if(TILEWRIGHT_BENCHMARKS AND EXISTS ${CMAKE_SOURCE_DIR}/bench/CMakeLists.txt)
  add_subdirectory(bench)
endif()
