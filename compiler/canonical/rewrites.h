// compiler/canonical/rewrites.h: rewrites that are exact in real arithmetic and make a graph cheaper to execute. Unlike
// the patterns of canonical.h they change which numbers are parameters, so each can be switched off for comparison.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "compiler/canonical/rewriter.h"
#include "hw/base/result.h"

namespace tw::compiler {

struct Rewrite {
  const char* name;
  const char* summary;
  bool (*apply)(Rewriter& rewriter, OperationId id);  // as a Pattern: tries it at one operation
};

// In the order in which they are applied, each once over the graph.
std::span<const Rewrite> rewrites();

// Errors (usage): a name that no rewrite has, with the nearest.
Status check_rewrite_names(const std::vector<std::string>& names);

bool fold_norm_scale(Rewriter& rewriter, OperationId id);
bool drop_key_bias(Rewriter& rewriter, OperationId id);
bool fold_value_bias(Rewriter& rewriter, OperationId id);
bool reassociate_constant_queries(Rewriter& rewriter, OperationId id);

}  // namespace tw::compiler
