#include "compiler/canonical/canonical.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/canonical/rewriter.h"
#include "compiler/canonical/rewrites.h"
#include "hw/base/check.h"

namespace tw::compiler {
namespace {

// In order: what makes later patterns match comes first.
constexpr std::array patterns{
    Pattern{"fold constants", fold_constants},   Pattern{"drop identities", drop_identity},
    Pattern{"merge views", merge_views},         Pattern{"raise layer norm", raise_layer_norm},
    Pattern{"raise gelu", raise_gelu},           Pattern{"raise bias", raise_bias},
    Pattern{"raise attention", raise_attention},
};
// After the rewrites, which look at one projection at a time.
constexpr std::array merging{Pattern{"merge projections", merge_projections}};

using Apply = bool (*)(Rewriter&, OperationId);

bool apply_everywhere(Rewriter& rewriter, Apply apply) {
  bool changed = false;
  for (const OperationId id : rewriter.operations())
    if (rewriter.is_alive(id)) changed = apply(rewriter, id) || changed;
  if (changed) rewriter.remove_dead();
  return changed;
}

void apply_until_nothing_changes(Rewriter& rewriter, std::span<const Pattern> list) {
  constexpr int rounds = 32;  // each round removes or raises something; real models need three or four
  for (int round = 0; round < rounds; ++round) {
    bool changed = false;
    for (const Pattern& pattern : list) changed = apply_everywhere(rewriter, pattern.apply) || changed;
    if (!changed) break;
  }
}

}  // namespace

Result<Graph> canonicalise(Graph graph, const std::vector<std::string>& without) {
  TW_TRY_STATUS(check_rewrite_names(without));
  Rewriter rewriter(std::move(graph));
  rewriter.remove_dead();
  apply_until_nothing_changes(rewriter, patterns);
  for (const Rewrite& rewrite : rewrites())
    if (std::find(without.begin(), without.end(), rewrite.name) == without.end())
      apply_everywhere(rewriter, rewrite.apply);
  apply_until_nothing_changes(rewriter, merging);
  apply_until_nothing_changes(rewriter, patterns);
  Graph result = roll_repeats(std::move(rewriter).finish());
  const std::vector<Violation> broken = verify(result);
  TW_CHECK(broken.empty(), "canonicalise broke {}: {}", broken[0].rule, broken[0].message);
  return result;
}

std::vector<std::string> pattern_names() {
  std::vector<std::string> names;
  names.reserve(patterns.size() + merging.size());
  for (const Pattern& pattern : patterns) names.emplace_back(pattern.name);
  for (const Pattern& pattern : merging) names.emplace_back(pattern.name);
  return names;
}

std::vector<std::string> rewrite_names() {
  std::vector<std::string> names;
  names.reserve(rewrites().size());
  for (const Rewrite& rewrite : rewrites()) names.emplace_back(rewrite.name);
  return names;
}

}  // namespace tw::compiler
