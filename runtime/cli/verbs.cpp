// runtime/cli/verbs.cpp: the table of verbs.
#include "runtime/cli/verb.h"

namespace tw::runtime {

const std::vector<OptionInfo>& common_options() {
  static const std::vector<OptionInfo> options{
      {"help,h", "", "this text"},
      {"json", "", "one JSON object on stdout and nothing else"},
      {"verbose,v", "", "more on stderr"},
      {"quiet,q", "", "nothing on stderr but errors"},
      {"threads", "N", "use at most N threads (0: all cores)"},
      {"memory-limit", "BYTES", "fail rather than use more memory"},
  };
  return options;
}

std::vector<OptionInfo> compile_options() {
  return {
      {"machine,m", "NAME|FILE", "machine description (ipu21)"},
      {"precision,p", "f8|f16|f32", "of matmul operands (f8)"},
      {"batch", "N", "batch size, for generators and a symbolic first dimension"},
      {"dim", "NAME=N", "binds a symbolic dimension by its name in the model", true},
      {"seed", "N", "seed of generators' weights and of calibration inputs (0)"},
      {"plan", "FILE", "choices to keep, as written by plan --plan-out"},
      {"without", "REWRITE", "switches a rewrite off: norm-scale, constant-queries, key-bias, value-bias", true},
  };
}

namespace {

std::vector<OptionInfo> with(std::vector<OptionInfo> first, const std::vector<OptionInfo>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

}  // namespace

const std::vector<Verb>& verbs() {
  static const std::vector<OptionInfo> model_options{{"batch", "N", "batch size"},
                                                     {"dim", "NAME=N", "binds a symbolic dimension", true},
                                                     {"seed", "N", "seed of generators' weights (0)"},
                                                     {"without", "REWRITE", "switches a rewrite off", true}};
  static const std::vector<Verb> table{
      {"model", "built-in generators of models", "list | emit SPEC -o M.onnx", "tilewright model list",
       with(model_options, {{"output,o", "FILE", "emit: the ONNX file to write"}}), 1, 2, run_model},
      {"machine",
       "machine descriptions",
       "list | show NAME | check FILE",
       "tilewright machine show ipu21",
       {},
       1,
       2,
       run_machine},
      {"graph", "the imported, canonical graph", "MODEL", "tilewright graph encoder:layers=2",
       with(model_options, {{"raw", "", "as imported, without raising patterns and rolling repeats"}}), 1, 1,
       run_graph},
      {"plan", "grids, layouts and costs as a table", "MODEL", "tilewright plan siglip-so400m:layers=4 --machine ipu21",
       with(compile_options(), {{"alternatives", "N", "of each choice also the N next best, with prices and reasons"},
                                {"plan-out", "FILE", "writes the choices as a plan that can be edited and pinned"}}),
       1, 1, run_plan},
      {"compile", "compiles a model into a package", "MODEL -o P.twp",
       "tilewright compile mlp:rows=48 --machine ipu21-64 -o mlp.twp",
       with(compile_options(),
            {{"output,o", "FILE", "the package to write"},
             {"no-weights", "", "timing only: a small package that can be simulated with --timing"},
             {"calibrate", "INPUTS.npz", "inputs for the F8 scales, also NAME=X.npy (else drawn with the seed)", true},
             {"scales", "FILE", "operand ranges for the F8 scales as JSON, instead of measured ones"}}),
       1, 1, run_compile},
      {"check", "whether a model fits a machine; no package", "MODEL", "tilewright check siglip-so400m --machine ipu21",
       compile_options(), 1, 1, run_check},
      {"simulate",
       "executes a package in simulation",
       "P.twp",
       "tilewright simulate mlp.twp --reference",
       {{"input", "NAME=X.npy", "an input (else drawn with the seed)", true},
        {"output", "NAME=Y.npy", "writes an output", true},
        {"seed", "N", "seed of inputs that are not given (0)"},
        {"reference", "", "compares with the f32 and the quantised reference"},
        {"tolerance", "X", "with --reference: fails when an output differs by more from the quantised reference"},
        {"timing", "", "cycles only: nothing is computed"},
        {"checkpoints", "DIR", "writes every operation's output as .npy and names the first that goes wrong"},
        {"model", "FILE", "the model, when it is not where it was compiled from"}},
       1,
       1,
       run_simulate},
      {"inspect",
       "what is in a package",
       "P.twp",
       "tilewright inspect mlp.twp --tile 0 --disassemble",
       {{"tile", "N", "one tile (the fullest one)"},
        {"disassemble", "", "its instructions"},
        {"memory", "", "its buffers"},
        {"exchange", "", "its exchange rows"}},
       1,
       1,
       run_inspect},
      {"kernel",
       "catalogue price of one kernel call",
       "NAME",
       "tilewright kernel gemm --rows 82 --inner 192 --columns 160 --precision f8",
       {{"rows", "R", "rows (1)"},
        {"inner", "K", "inner extent of a gemm (32)"},
        {"columns", "C", "columns (16)"},
        {"elements", "N", "elements or bytes, where a kernel counts them"},
        {"precision", "f8|f16|f32", "of its operands (f16)"},
        {"partials", "P", "partial sums (1)"},
        {"machine,m", "NAME|FILE", "machine description (ipu21)"}},
       1,
       1,
       run_kernel},
      {"report",
       "one self-contained HTML page about a package",
       "P.twp -o report.html",
       "tilewright report mlp.twp -o report.html",
       {{"output,o", "FILE", "the page to write"},
        {"reference", "", "with errors against the references"},
        {"seed", "N", "seed of the inputs (0)"}},
       1,
       1,
       run_report},
      {"calibrate",
       "measured cycles against simulated ones, row by row",
       "[--rows FILE.csv] [--machine NAME|FILE]",
       "tilewright calibrate --machine ipu21",
       {{"rows", "FILE.csv", "measurements (else those that come with tilewright)"},
        {"machine,m", "NAME|FILE", "machine description (ipu21)"}},
       0,
       0,
       run_calibrate},
      {"place",
       "places buffers with lifetimes in a memory",
       "FILE.csv --capacity BYTES",
       "tilewright place buffers.csv --capacity 1048576 -o placed.csv",
       {{"capacity", "BYTES", "of the memory"},
        {"output,o", "FILE", "id,lower,upper,size,offset rows"},
        {"nodes", "N", "of the exact search (20,000,000)"},
        {"seconds", "N", "time limit of the exact search (0: none, the same answer everywhere)"}},
       1,
       1,
       run_place},
      {"version", "version and build", "", "tilewright version", {}, 0, 0, run_version},
  };
  return table;
}

}  // namespace tw::runtime
