#include "compiler/canonical/canonical.h"

#include <fmt/format.h>

#include <array>

#include "compiler/canonical/rewriter.h"
#include "hw/base/check.h"

namespace tw::compiler {
namespace {

// In order: what makes later patterns match comes first.
constexpr std::array patterns{
    Pattern{"fold constants", fold_constants},   Pattern{"drop identities", drop_identity},
    Pattern{"merge views", merge_views},         Pattern{"raise layer norm", raise_layer_norm},
    Pattern{"raise gelu", raise_gelu},           Pattern{"raise bias", raise_bias},
    Pattern{"raise attention", raise_attention}, Pattern{"merge projections", merge_projections},
};

bool apply_everywhere(Rewriter& rewriter, const Pattern& pattern) {
  bool changed = false;
  for (const OperationId id : rewriter.operations())
    if (rewriter.is_alive(id)) changed = pattern.apply(rewriter, id) || changed;
  if (changed) rewriter.remove_dead();
  return changed;
}

}  // namespace

Result<Graph> canonicalise(Graph graph) {
  Rewriter rewriter(std::move(graph));
  rewriter.remove_dead();
  constexpr int rounds = 32;  // each round removes or raises something; real models need three or four
  for (int round = 0; round < rounds; ++round) {
    bool changed = false;
    for (const Pattern& pattern : patterns) changed = apply_everywhere(rewriter, pattern) || changed;
    if (!changed) break;
  }
  Graph result = roll_repeats(std::move(rewriter).finish());
  const std::vector<Violation> broken = verify(result);
  TW_CHECK(broken.empty(), "canonicalise broke {}: {}", broken[0].rule, broken[0].message);
  return result;
}

std::vector<std::string> pattern_names() {
  std::vector<std::string> names;
  for (const Pattern& pattern : patterns) names.emplace_back(pattern.name);
  return names;
}

}  // namespace tw::compiler
