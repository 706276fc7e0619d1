#include "compiler/canonical/rewrites.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hw/base/text.h"

namespace tw::compiler {
namespace {

constexpr std::array table{
    Rewrite{"norm-scale", "gamma and beta of a layer norm into the weights and biases of the products that read it",
            fold_norm_scale},
    Rewrite{"key-bias", "the bias of attention's keys dropped: it adds one number to every score of a row",
            drop_key_bias},
    Rewrite{"value-bias", "the bias of attention's values into the next bias: probabilities sum to one",
            fold_value_bias},
    Rewrite{"constant-queries", "attention of constant queries re-associated: neither keys nor values are made",
            reassociate_constant_queries},
};

}  // namespace

std::span<const Rewrite> rewrites() { return table; }

Status check_rewrite_names(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const Rewrite& rewrite : table) known.emplace_back(rewrite.name);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      return fail(ErrorKind::usage, fmt::format("--without \"{}\": no rewrite has this name{}; there are {}", name,
                                                did_you_mean(name, known), join(known, ", ")));
  return {};
}

}  // namespace tw::compiler
