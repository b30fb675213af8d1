// Python programs read what the C++ code has written, and the other way round.

#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/command.h"
#include "tests/unit/model/model_files.h"

namespace simurgh {
namespace {

using Catch::Contains;
using testing::BytesOf;
using testing::CommandResult;
using testing::Python;
using testing::ReadText;
using testing::RunCommand;
using testing::TestRows;
using testing::WriteText;

CommandResult ReadModel(const std::string& python, const std::string& arguments) {
  return RunCommand(python + " scripts/read_model.py " + arguments);
}

struct Model {
  Model() : model(folder.Path("model")) {
    REQUIRE(model.NewGeneration().ok());
    checkpoint = testing::WriteCheckpoint(model, 10, 1, 70'000);
    rows = checkpoint.Path("rows/t/0.safetensors");
  }

  TemporaryFolder folder;
  ModelDirectory model;
  Checkpoint checkpoint;
  std::string rows;
};

TEST_CASE("The Python reader prints tensors and rows") {
  const std::string python = Python("numpy");
  const Model model;
  const CommandResult whole = ReadModel(python, model.checkpoint.folder);
  CHECK(whole.error.empty());
  CHECK(whole.exit_code == 0);
  CHECK_THAT(whole.out,
             Catch::StartsWith("step 10 samples 9007199254740993 metrics {'auc': 0.3000"));
  CHECK_THAT(whole.out, Contains("\n  id uint64 [70000]\n  weights float32 [70000, 3]\n"));
  const std::string from = model.rows + " ";
  CHECK(ReadModel(python, from + "id 69999").out ==
        "[" + std::to_string(TestRows(70'000).id.back()) + "]\n");
  CHECK(ReadModel(python, from + "weights 2 2").out ==
        "[[2.    2.125 2.25 ]\n [3.    3.125 3.25 ]]\n");
  CHECK(ReadModel(python, from + "half 2 2").out ==
        "[[2.    2.125 2.25 ]\n [3.    3.125 3.25 ]]\n");
  CHECK(ReadModel(python, "").exit_code != 0);
}

TEST_CASE("The Python reader checks checksums and the manifest's hash") {
  const std::string python = Python("numpy, xxhash");
  const Model model;
  CHECK_THAT(ReadModel(python, model.checkpoint.folder).out, Contains("  checksums: all match\n"));
  const std::string good = ReadText(model.rows);
  std::string bad = good;
  bad.back() ^= 1;
  WriteText(model.rows, bad);
  const CommandResult damaged = ReadModel(python, model.checkpoint.folder);
  CHECK(damaged.exit_code == 1);
  CHECK(damaged.error == model.rows + ": tensor half, rows from 65536: wrong checksum\n");
  bad = good;
  const size_t metadata = bad.find("\"table\":\"t\"");
  REQUIRE(metadata != bad.npos);
  bad[metadata + 9] = 'u';
  WriteText(model.rows, bad);
  CHECK(ReadModel(python, model.rows).exit_code == 0);
  CHECK(ReadModel(python, model.checkpoint.folder).error ==
        model.rows + ": the hash is not that of the manifest\n");
}

TEST_CASE("The safetensors package reads what was written") {
  const std::string python = Python("safetensors.numpy");
  const Model model;
  const std::string script = model.folder.Write("read.py", R"(
import sys
from safetensors import safe_open
from safetensors.numpy import load_file
tensors = load_file(sys.argv[1])
print({name: (str(one.dtype), one.shape) for name, one in sorted(tensors.items())})
for name in ("id", "weights", "uses", "half"):
    open(sys.argv[2] + name, "wb").write(tensors[name].tobytes())
print(safe_open(sys.argv[1], "numpy").metadata()["half.format"])
)");
  const CommandResult result =
      RunCommand(python + " " + script + " " + model.rows + " " + model.folder.Path(""));
  CHECK(result.error.empty());
  CHECK(result.out ==
        "{'half': ('uint16', (70000, 3)), 'id': ('uint64', (70000,)), 'sums': ('uint64', (8,)), "
        "'uses': ('uint16', (70000,)), 'weights': ('float32', (70000, 3))}\nbf16\n");
  const TestRows test(70'000);
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  CHECK(ReadText(model.folder.Path("id")) == text(BytesOf(test.id)));
  CHECK(ReadText(model.folder.Path("weights")) == text(BytesOf(test.weights)));
  CHECK(ReadText(model.folder.Path("uses")) == text(BytesOf(test.uses)));
  CHECK(ReadText(model.folder.Path("half")) == text(BytesOf(test.bf16)));
}

TEST_CASE("A file of the safetensors package is read") {
  const std::string python = Python("safetensors.numpy");
  const TemporaryFolder folder;
  const std::string path = folder.Path("a.safetensors");
  const CommandResult result = RunCommand(
      python + " " +
      "-c 'import numpy; from safetensors.numpy import save_file; save_file({"
      "\"a\": numpy.arange(6, dtype=\"f4\").reshape(3, 2), \"b\": numpy.array(7, dtype=\"u8\")}, "
      "\"" +
      path + "\", {\"key\": \"value\"})'");
  INFO(result.error);
  REQUIRE(result.exit_code == 0);
  auto reader = TensorFileReader::Open(path);
  INFO(reader.status());
  REQUIRE(reader.ok());
  CHECK(reader->metadata() == TensorMetadata{{"key", "value"}});
  std::vector<float> a(4);
  CHECK(reader->Read("a", 1, 2, std::as_writable_bytes(std::span(a))).ok());
  CHECK(a == std::vector<float>{2, 3, 4, 5});
  uint64_t b = 0;
  CHECK(reader->Read("b", 0, 1, std::as_writable_bytes(std::span(&b, 1))).ok());
  CHECK(b == 7);
}

}  // namespace
}  // namespace simurgh
