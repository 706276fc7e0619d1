// runtime/report/errors.cpp: outputs against the references, and operations when checkpoints were read.
#include <algorithm>
#include <cmath>

#include "hw/base/text.h"
#include "runtime/report/html.h"
#include "runtime/report/views.h"

namespace tw::runtime {
namespace {

void output_rows(std::string& html, const std::map<std::string, Comparison>& outputs, const char* reference) {
  for (const auto& [name, c] : outputs)
    append(html,
           "<tr><th scope=row>{}</th><td>{}</td><td class=n>{:.5g}</td><td class=n>{:.5g}</td><td "
           "class=n>{:.5g}</td><td class=n>{:.7f}</td></tr>\n",
           escape(name), reference, c.max_abs_error, c.mean_abs_error, c.rel_l2, c.cosine);
}

std::string operations_table(const std::vector<OperationError>& operations) {
  double largest = 0;
  for (const OperationError& operation : operations)
    largest = std::max(largest, operation.against_quantised.max_abs_error);
  std::string html =
      "<h3>By operation</h3><div class=scroll tabindex=0 role=region aria-label=\"Errors by "
      "operation\"><table><thead><tr><th scope=col>operation<th scope=col class=n>iteration"
      "<th scope=col>largest error against quantised<th scope=col class=n>cosine<th scope=col class=\"n wide\">largest "
      "against f32<th scope=col class=\"n wide\">cosine</tr></thead><tbody>\n";
  for (const OperationError& operation : operations) {
    const Comparison &quantised = operation.against_quantised, &f32 = operation.against_f32;
    const double width = largest > 0 && std::isfinite(largest) ? 100 * quantised.max_abs_error / largest : 0;
    append(html,
           "<tr><th scope=row>{}</th><td class=n>{}</td><td><svg class=rowbar viewBox=\"0 0 100 10\" "
           "preserveAspectRatio=none aria-hidden=true>"
           "<rect class=k1 width={:.1f} height=10></rect></svg><span class=n>{:.5g}</span></td><td "
           "class=n>{:.6f}</td><td class=\"n wide\">{:.5g}</td><td class=\"n wide\">{:.6f}</td></tr>\n",
           escape(operation.operation), operation.iteration, width, quantised.max_abs_error, quantised.cosine,
           f32.max_abs_error, f32.cosine);
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string errors_view(const ReportInput& input) {
  std::string html = "<section aria-labelledby=h-errors><h2 id=h-errors>Errors</h2>\n";
  if (!input.reference)
    return html + "<p>This run was not compared with a reference; <code>--reference</code> does that.</p></section>\n";
  html +=
      "<p>Outputs against an independent host evaluation: in f32, and quantised as the plan rounds.</p>\n"
      "<div class=scroll tabindex=0 role=region aria-label=\"Errors by output\"><table><thead><tr><th "
      "scope=col>output<th scope=col>reference<th scope=col class=n>largest absolute"
      "<th scope=col class=n>mean absolute<th scope=col class=n>relative L2<th scope=col "
      "class=n>cosine</tr></thead><tbody>\n";
  output_rows(html, input.reference->quantised, "quantised");
  output_rows(html, input.reference->f32, "f32");
  html += "</tbody></table></div>\n";
  if (!input.reference->operations.empty()) html += operations_table(input.reference->operations);
  return html + "</section>\n";
}

}  // namespace tw::runtime
