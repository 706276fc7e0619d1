// tests/cli/cli_test.cpp: the binary as scripts use it: exit codes, streams, JSON, files.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/cli/schema.h"
#include "tests/support/support.h"

namespace tw {
namespace {

using nlohmann::json;

constexpr const char* spec = "mlp:rows=48,inputs=64,hidden=128,outputs=32";
constexpr const char* verbs[] = {"model",   "machine", "graph",  "plan",    "compile", "check",    "simulate",
                                 "inspect", "kernel",  "report", "version", "place",   "calibrate"};

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

struct Outcome {
  int code = -1;
  std::string out, err;
};

class Cli : public ::testing::Test {
 protected:
  // Runs `tilewright ARGUMENTS` through the shell, in the test's folder.
  Outcome run(const std::string& arguments) const {
    const std::string command = fmt::format("cd '{}' && '{}' {} > out 2> err", folder_.file("."), TW_BINARY, arguments);
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(folder_.file("out")),
            read_text(folder_.file("err"))};
  }

  // The JSON of a run with --json, checked against the schema of its verb (or of errors).
  json run_json(const std::string& arguments, int code = 0) const {
    const Outcome outcome = run(arguments + " --json");
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.err;
    const json object = json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(object.is_object()) << arguments << ": stdout is not one JSON object:\n" << outcome.out.substr(0, 500);
    if (!object.is_object()) return json::object();
    const std::string name = object.contains("error") ? "error" : arguments.substr(0, arguments.find(' '));
    const json schema =
        json::parse(read_text(std::string(TW_SOURCE_DIR) + "/docs/schema/" + name + ".json"), nullptr, false);
    EXPECT_TRUE(schema.is_object()) << name;
    EXPECT_EQ(test::mismatch(schema, object), "") << arguments;
    return object;
  }

  std::string compiled(const std::string& options = "") const {
    const Outcome outcome = run(fmt::format("compile {} --machine ipu21-64 -o m.twp {}", spec, options));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return "m.twp";
  }

  const test::TemporaryFolder folder_;
};

TEST_F(Cli, HelpHasAnExampleForEveryVerb) {
  for (const char* verb : verbs) {
    const Outcome outcome = run(std::string(verb) + " --help");
    EXPECT_EQ(outcome.code, 0) << verb;
    EXPECT_NE(outcome.out.find("Example:\n  tilewright " + std::string(verb)), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.err, "");
  }
  for (const char* all : {"--help", "-h", "help"}) {
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0);
    for (const char* verb : verbs) EXPECT_NE(outcome.out.find(verb), std::string::npos) << verb;
  }
}

TEST_F(Cli, WrongUsageExitsWith2AndNamesTheNearest) {
  const auto expect = [&](const std::string& arguments, const std::string& part) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << arguments << ": " << outcome.err;
  };
  expect("", "usage");
  expect("simulat x.twp", "did you mean \"simulate\"");
  expect(fmt::format("compile {} --precison f8 -o x.twp", spec), "did you mean \"--precision\"");
  expect(fmt::format("compile {}", spec), "-o P.twp is missing");
  expect("compile", "usage: tilewright compile");
  expect("check a b", "2 arguments given");
  expect(fmt::format("check {} --precision f9", spec), "f9");
  expect(fmt::format("check {} --dim N", spec), "NAME=VALUE");
  expect(fmt::format("check {} --dim N=0", spec), "at least 1");
  expect(fmt::format("check {} --batch 1 --batch 2", spec), "given 2 times");
  expect(fmt::format("check {} --threads -3", spec), "--threads");
  expect("kernel gem", "did you mean \"gemm\"");
  expect("simulate m.twp --timing --reference", "--timing");
}

TEST_F(Cli, FailuresExitWith1) {
  std::ofstream(folder_.file("text.onnx")) << "no model";
  std::ofstream(folder_.file("text.twp")) << std::string(100, 'x');
  for (const std::string& arguments :
       {std::string("compile none.onnx -o x.twp"), std::string("compile text.onnx -o x.twp"),
        fmt::format("compile {} --machine ipu22 -o x.twp", spec), std::string("simulate none.twp"),
        std::string("simulate text.twp"), std::string("inspect text.twp"), std::string("report text.twp -o r.html"),
        std::string("machine check none.toml"), std::string("kernel gemm --inner 17")}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(outcome.err.starts_with("tilewright: ")) << arguments << outcome.err;
    EXPECT_TRUE(run_json(arguments, 1).contains("error")) << arguments;
  }
}

TEST_F(Cli, CheckThatDoesNotFitExitsWith3) {
  const std::string big = "check mlp:rows=4096,inputs=65536,hidden=65536,outputs=65536 --machine ipu21-64";
  EXPECT_NE(run(big).out.find("does not fit"), std::string::npos);
  const json object = run_json(big, 3);
  EXPECT_EQ(object["fits"], false);
  EXPECT_GT(object["obstruction"]["needed_bytes"], object["obstruction"]["available_bytes"]);
  EXPECT_FALSE(object["obstruction"]["alternatives"].empty());
}

TEST_F(Cli, PlansCanBeWrittenEditedAndPinned) {
  const std::string plan = fmt::format("plan {} --machine ipu21-64", spec);
  const json free = run_json(plan + " --alternatives 2 --plan-out p.toml");
  ASSERT_EQ(free["choices"].size(), 2U);
  const json& first = free["choices"][0];
  EXPECT_EQ(first["alternatives"].size(), 3U);
  EXPECT_EQ(first["alternatives"][0]["reason"], "chosen");
  EXPECT_GE(first["alternatives"][1]["more_cycles"], 0);
  EXPECT_EQ(run_json(plan + " --plan p.toml")["plan"], free["plan"]);

  const std::string name = first["operation"];
  write_text(folder_.file("q.toml"), fmt::format("[operations.\"{}\"]\ngrid = \"2x1x1\"\n", name));
  EXPECT_EQ(run_json(plan + " --plan q.toml --alternatives 1")["choices"][0]["alternatives"][0]["grid"], "2x1x1");
  EXPECT_GT(run_json(plan + " --plan q.toml")["estimated_cycles"], free["estimated_cycles"]);
  EXPECT_EQ(run_json(fmt::format("compile {} --machine ipu21-64 -o q.twp --plan q.toml", spec))["fits"], true);

  const auto refused = [&](const std::string& text, const char* because) {
    write_text(folder_.file("bad.toml"), text);
    const Outcome outcome = run(plan + " --plan bad.toml");
    EXPECT_EQ(outcome.code, 1) << text;
    EXPECT_NE(outcome.err.find(because), std::string::npos) << outcome.err;
  };
  refused(fmt::format("[operations.\"{}\"]\ngrid = \"99x1x1\"\n", name), "99 groups, the machine has 64 tiles");
  refused(fmt::format("[operations.\"{}\"]\ngrid = \"1x1x64\"\n", name), "64 inner groups for");
  refused(fmt::format("[operations.\"{}x\"]\ngrid = \"1x1x1\"\n", name), "did you mean");
  refused(fmt::format("[operations.\"{}\"]\ngrid = \"2x1\"\n", name), "bad.toml:2: grid");
  refused(fmt::format("[operations.\"{}\"]\nsplit = \"rows\"\n", name), "key \"grid\" is missing");
  refused(fmt::format("[operations.\"{}\"]\ngrid = \"1x1x1\"\nlong_run = true\n", name), "did you mean \"long_runs\"");
  refused("operations = 3\n", "bad.toml:1: unknown key");
  refused("[operations\n", "bad.toml:1");
}

TEST_F(Cli, PlaceAnswersWithOffsetsOrAProof) {
  write_text(folder_.file("two.csv"), "id,lower,upper,size\na,0,2,8\nb,1,3,16\n");
  const json fits = run_json("place two.csv --capacity 24 -o placed.csv");
  EXPECT_EQ(fits["peak_bytes"], 24);
  EXPECT_EQ(fits["offsets"].size(), 2U);
  EXPECT_NE(read_text(folder_.file("placed.csv")).find("id,lower,upper,size,offset\n"), std::string::npos);
  const json refused = run_json("place two.csv --capacity 23", 3);
  EXPECT_EQ(refused["fits"], false);
  EXPECT_EQ(refused["proof"], "bound");
  EXPECT_EQ(refused["lower_bound_bytes"], 24);
  EXPECT_EQ(run("place two.csv").code, 2);
  EXPECT_EQ(run("place none.csv --capacity 1").code, 1);
}

TEST_F(Cli, EveryVerbAnswersInItsSchema) {
  compiled();
  write_text(folder_.file("fits.csv"), "id,lower,upper,size\na,0,2,8\nb,1,3,16\n");
  for (const char* precision : {"f8", "f16", "f32"}) {
    EXPECT_EQ(run_json(fmt::format("check {} --machine ipu21-64 --precision {}", spec, precision))["fits"], true);
    EXPECT_GT(run_json(fmt::format("compile {} --machine ipu21-64 --precision {} -o p.twp", spec,
                                   precision))["package_bytes"],
              0);
  }
  for (const std::string& arguments :
       {fmt::format("plan {} --machine ipu21-64", spec), fmt::format("graph {}", spec), std::string("model list"),
        fmt::format("model emit {} -o m.onnx", spec), std::string("machine list"), std::string("machine show ipu21"),
        std::string("version"), std::string("inspect m.twp --memory --exchange --disassemble"),
        std::string("kernel gemm --rows 82 --inner 192 --columns 160 --precision f8"),
        std::string("kernel softmax --rows 8 --columns 100"), std::string("report m.twp"),
        std::string("report m.twp -o r.html"), std::string("place fits.csv --capacity 24 -o placed.csv"),
        std::string("calibrate")})
    run_json(arguments);
  EXPECT_NE(read_text(folder_.file("r.html")).find("<html"), std::string::npos);
}

TEST_F(Cli, SimulationIsRepeatableAndTimingAgrees) {
  compiled();
  const json first = run_json("simulate m.twp --reference"),
             second = run_json("simulate m.twp --reference --threads 1");
  EXPECT_EQ(first["outputs"], second["outputs"]);
  EXPECT_EQ(first["cycles"], second["cycles"]);
  EXPECT_EQ(first["cycles"], run_json("simulate m.twp --timing")["cycles"]);
  EXPECT_GT(first["reference"]["f32"]["cosine"], 0.99);
  EXPECT_NE(first["outputs"], run_json("simulate m.twp --seed 1")["outputs"]);
  EXPECT_EQ(first["compute_cycles"].get<std::int64_t>() + first["exchange_cycles"].get<std::int64_t>() +
                first["sync_cycles"].get<std::int64_t>() + first["host_cycles"].get<std::int64_t>(),
            first["cycles"].get<std::int64_t>());
}

TEST_F(Cli, OutputsCheckpointsAndTolerance) {
  compiled("--precision f16");
  const json object = run_json("simulate m.twp --checkpoints points --output y=y.npy");
  EXPECT_FALSE(object["operations"].empty());
  EXPECT_FALSE(object.contains("first_wrong_operation"));
  EXPECT_TRUE(read_text(folder_.file("y.npy")).starts_with("\x93NUMPY"));
  EXPECT_FALSE(std::filesystem::is_empty(folder_.file("points")));
  EXPECT_EQ(run("simulate m.twp --reference --tolerance 1").code, 0);
  EXPECT_EQ(run("simulate m.twp --output z=z.npy").code, 2);
  EXPECT_EQ(run("simulate m.twp --input z=y.npy").code, 2);
  EXPECT_EQ(run("simulate m.twp --tolerance x").code, 2);
}

TEST_F(Cli, PackagesWithoutWeightsAreForTiming) {
  const auto whole = (compiled(), std::filesystem::file_size(folder_.file("m.twp")));
  const json timed = run_json("simulate m.twp --timing");
  compiled("--no-weights");
  EXPECT_LT(std::filesystem::file_size(folder_.file("m.twp")), whole);
  EXPECT_EQ(run_json("simulate m.twp --timing")["cycles"], timed["cycles"]);
  EXPECT_EQ(run("simulate m.twp").code, 1);
}

TEST_F(Cli, ABatchThatIsGivenIsTheReferencesToo) {
  ASSERT_EQ(run("compile encoder:layers=1,tokens=20,width=32,mlp=64 --batch 2 --machine ipu21-64 -o b.twp").code, 0);
  const json object = run_json("simulate b.twp --reference");
  EXPECT_EQ(object["outputs"][0]["shape"], json({2, 20, 32}));
  EXPECT_GE(object["reference"]["f32"]["cosine"].get<double>(), 0.99);
}

TEST_F(Cli, SameModelSamePackage) {
  compiled();
  const std::string first = read_text(folder_.file("m.twp"));
  compiled("--threads 1");
  EXPECT_TRUE(first == read_text(folder_.file("m.twp")));
}

TEST_F(Cli, ScalesComeFromFiles) {
  std::ofstream(folder_.file("bad.json")) << R"({"no such matmul": {"left_max_abs": 1, "right_max_abs": 1}})";
  EXPECT_EQ(run(fmt::format("compile {} --machine ipu21-64 -o m.twp --scales bad.json", spec)).code, 1);
  EXPECT_EQ(run(fmt::format("compile {} --machine ipu21-64 -o m.twp --calibrate none.npz", spec)).code, 1);
  EXPECT_EQ(run(fmt::format("compile {} --machine ipu21-64 -o m.twp --calibrate x", spec)).code, 2);
}

TEST_F(Cli, ADamagedPackageIsRefused) {
  compiled();
  std::string bytes = read_text(folder_.file("m.twp"));
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(folder_.file("bad.twp"), std::ios::binary) << bytes;
  const json object = run_json("simulate bad.twp", 1);
  EXPECT_EQ(object["error"]["kind"], "corrupt");
  EXPECT_TRUE(object["error"]["where"].contains("section"));
}

TEST_F(Cli, NoEscapeCodesAndQuiet) {
  compiled();
  for (const char* arguments :
       {"simulate m.twp --reference", "inspect m.twp --memory", "simulate m.twp --quiet", "simulate m.twp --verbose"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ((outcome.out + outcome.err).find('\x1b'), std::string::npos) << arguments;
  }
  EXPECT_EQ(run("simulate m.twp --quiet").err, "");
}

TEST_F(Cli, ManualAndCompletionsKnowEveryVerb) {
  const std::string manual = run("manual").out, bash = run("completion bash").out, zsh = run("completion zsh").out;
  for (const char* verb : verbs) {
    EXPECT_NE(manual.find(fmt::format(".SS {}\n", verb)), std::string::npos) << verb;
    EXPECT_NE(bash.find(fmt::format(" {}) ", verb)), std::string::npos) << verb;
    EXPECT_NE(zsh.find(fmt::format(" {}) ", verb)), std::string::npos) << verb;
  }
  EXPECT_EQ(run("completion fish").code, 2);
}

}  // namespace
}  // namespace tw
