#include "compiler/plan/kernel_function.h"

namespace tw::compiler {

hw::UnaryFunction kernel_function(Unary function) {
  switch (function) {
    case Unary::relu: return hw::UnaryFunction::relu;
    case Unary::tanh: return hw::UnaryFunction::tanh;
    case Unary::sigmoid: return hw::UnaryFunction::sigmoid;
    case Unary::exp: return hw::UnaryFunction::exp;
    case Unary::sqrt: return hw::UnaryFunction::sqrt;
    case Unary::erf: return hw::UnaryFunction::erf;
    case Unary::negate: return hw::UnaryFunction::negate;
    case Unary::absolute: return hw::UnaryFunction::absolute;
    case Unary::reciprocal: return hw::UnaryFunction::reciprocal;
    case Unary::log: return hw::UnaryFunction::log;
  }
  return hw::UnaryFunction::identity;
}

hw::BinaryFunction kernel_function(Binary function) {
  switch (function) {
    case Binary::add: return hw::BinaryFunction::add;
    case Binary::subtract: return hw::BinaryFunction::subtract;
    case Binary::multiply: return hw::BinaryFunction::multiply;
    case Binary::divide: return hw::BinaryFunction::divide;
    case Binary::power: return hw::BinaryFunction::power;
    case Binary::maximum: return hw::BinaryFunction::maximum;
    case Binary::minimum: return hw::BinaryFunction::minimum;
  }
  return hw::BinaryFunction::add;
}

hw::RowReduction kernel_function(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return hw::RowReduction::sum;
    case Reduction::mean: return hw::RowReduction::mean;
    case Reduction::maximum: return hw::RowReduction::maximum;
  }
  return hw::RowReduction::sum;
}

}  // namespace tw::compiler
