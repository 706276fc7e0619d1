// compiler/plan/kernel_function.h: which kernel function computes a graph function: for prices and for lowering alike.
#pragma once
#include "compiler/graph/graph.h"
#include "hw/kernel/kernel.h"

namespace tw::compiler {

hw::UnaryFunction kernel_function(Unary function);
hw::BinaryFunction kernel_function(Binary function);
hw::RowReduction kernel_function(Reduction reduction);

}  // namespace tw::compiler
