// Tables read, compared and exported, against the rows that were written.

#include "model/table_export.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "model/model_report.h"
#include "model/row_files.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/command.h"
#include "tests/unit/model/model_files.h"

namespace simurgh {
namespace {

using testing::RunCommand;
using testing::TestManifest;
using testing::TestRows;

// A checkpoint whose table `t` is in one file for each server. Each server has the rows [first,
// end).
struct Share {
  uint64_t first;
  uint64_t end;
};

Checkpoint WriteShares(ModelDirectory& model, uint64_t step, const std::vector<Share>& shares,
                       float changed = 0) {
  const TestRows all(100'000);
  CheckpointAttempt attempt = model.Begin(step, 1).value();
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto [first, end] = shares[i];
    std::vector<TensorSpec> specs = all.specs();
    for (TensorSpec& spec : specs) spec.shape[0] = end - first;
    const std::string path = attempt.Path("rows/t/" + std::to_string(i) + ".safetensors").value();
    TensorFileWriter writer =
        TensorFileWriter::Create(path, specs, {{"half.format", "bf16"}}).value();
    for (const TensorSpec& spec : specs) {
      std::vector<float> weights = all.weights;
      if (changed != 0) weights[3 * 70'000 + 1] = changed;
      const std::span<const std::byte> bytes = spec.name == "id"        ? testing::BytesOf(all.id)
                                               : spec.name == "weights" ? testing::BytesOf(weights)
                                               : spec.name == "uses"    ? testing::BytesOf(all.uses)
                                                                     : testing::BytesOf(all.bf16);
      const uint64_t row_bytes = spec.row_bytes();
      REQUIRE(writer.Write(spec.name, bytes.subspan(first * row_bytes, (end - first) * row_bytes))
                  .ok());
    }
    REQUIRE(writer.Finish().ok());
  }
  Manifest manifest = TestManifest();
  manifest.files.clear();
  manifest.parent.reset();
  return attempt.Publish(std::move(manifest)).value();
}

struct Model {
  Model() : model(folder.Path("model")) { REQUIRE(model.NewGeneration().ok()); }

  TemporaryFolder folder;
  ModelDirectory model;
};

TEST_CASE("models with the same rows on other servers do not differ") {
  Model model;
  const Checkpoint one = WriteShares(model.model, 1, {{0, 100'000}});
  const Checkpoint three =
      WriteShares(model.model, 2, {{90'000, 100'000}, {7, 7}, {0, 5}, {5, 90'000}});
  CHECK(DescribeDifferences(one, three).value().empty());
  const uint64_t changed_id = TestRows(100'000).id[70'000];
  const Checkpoint changed = WriteShares(model.model, 3, {{0, 80'000}, {80'000, 99'998}}, 7);
  const TestRows rows(100'000);
  CHECK(DescribeDifferences(one, changed).value() ==
        "table t: 1 rows differ, such as id " + std::to_string(changed_id) +
            "; 2 rows only in the first, such as id " +
            std::to_string(std::min(rows.id[99'998], rows.id[99'999])) + "\n");
  CHECK(TableReader::Open(one, "u").status().message() ==
        one.folder + ": there is no table 'u'; use t");
}

TEST_CASE("reading a table finds its damage") {
  Model model;
  const Checkpoint one = WriteShares(model.model, 1, {{0, 100'000}});
  const Checkpoint two = WriteShares(model.model, 2, {{0, 100'000}});
  {
    std::fstream file(two.Path("rows/t/0.safetensors"), std::ios::in | std::ios::out);
    file.seekp(600'000);
    file.put('\x55');
  }
  CHECK(DescribeDifferences(one, two).status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("files whose tensors are not rows are refused") {
  struct Bad {
    std::vector<TensorSpec> tensors;
    std::string message;
  };
  const std::string no_ids = "there is no tensor id of the type U64 [N]; use another checkpoint";
  const Bad bad = GENERATE_COPY(
      values<Bad>({{{{"uses", DType::kU16, {4}}}, no_ids},
                   {{{"id", DType::kU16, {4}}}, no_ids},
                   {{{"id", DType::kU64, {4, 2}}}, no_ids},
                   {{{"id", DType::kU64, {4}}, {"uses", DType::kU16, {3}}},
                    "tensor uses has 3 rows, tensor id has 4; use another checkpoint"}}));
  Model model;
  CheckpointAttempt attempt = model.model.Begin(1, 1).value();
  const std::string path = attempt.Path("rows/t/0.safetensors").value();
  TensorFileWriter writer = TensorFileWriter::Create(path, bad.tensors, {}).value();
  for (const TensorSpec& spec : bad.tensors) {
    REQUIRE(writer.Write(spec.name, std::vector<std::byte>(spec.rows() * spec.row_bytes())).ok());
  }
  REQUIRE(writer.Finish().ok());
  const Checkpoint checkpoint = attempt.Publish({}).value();
  CHECK(OpenRows(checkpoint).status() ==
        absl::DataLossError(checkpoint.Path("rows/t/0.safetensors") + ": " + bad.message));
}

const TableExport kAll{.table = "t", .ids = std::nullopt, .has_all_tensors = true};

auto AppendTo(std::string& all) {
  return [&all](std::string_view text) {
    all += text;
    return absl::OkStatus();
  };
}

TEST_CASE("an exported table has the numbers of its rows") {
  Model model;
  const Checkpoint checkpoint = WriteShares(model.model, 1, {{0, 70'000}, {70'000, 100'000}});
  const TestRows rows(100'000);
  std::string all;
  REQUIRE(ExportCsv(checkpoint, kAll, AppendTo(all)).ok());
  std::istringstream lines(all);
  std::string line;
  REQUIRE(std::getline(lines, line));
  CHECK(line == "id,uses,weights.0,weights.1,weights.2,half.0,half.1,half.2");
  size_t count = 0;
  bool equal = true;
  for (; std::getline(lines, line); ++count) {
    std::istringstream cells(line);
    std::string cell;
    const auto next = [&] { return std::getline(cells, cell, ',') ? cell : std::string("none"); };
    equal = equal && next() == std::to_string(rows.id[count]);
    equal = equal && next() == std::to_string(rows.uses[count]);
    for (size_t i = 0; i < 3; ++i)
      equal = equal && std::stof(next()) == rows.weights[3 * count + i];
  }
  CHECK(count == 100'000);
  CHECK(equal);

  std::string some;
  const TableExport some_rows{.table = "t", .ids = {{rows.id[70'001], 12, rows.id[3]}}};
  REQUIRE(ExportCsv(checkpoint, some_rows, AppendTo(some)).ok());
  CHECK_THAT(some, Catch::StartsWith("id,weights.0,weights.1,weights.2\n"));
  CHECK_THAT(some, Catch::Contains("\n" + std::to_string(rows.id[3]) + ",") &&
                       Catch::Contains("\n" + std::to_string(rows.id[70'001]) + ","));
  CHECK(std::ranges::count(some, '\n') == 3);

  const auto broken = [](std::string_view) { return absl::DataLossError("no space"); };
  CHECK(ExportCsv(checkpoint, kAll, broken) == absl::DataLossError("no space"));
  CHECK_FALSE(ExportNpz(checkpoint, kAll, model.folder.Path("none/rows.npz")).ok());
}

TEST_CASE("numpy and safetensors load an exported table") {
  const std::string python = testing::Python("numpy, safetensors");
  Model model;
  const Checkpoint checkpoint = WriteShares(model.model, 1, {{0, 70'000}, {70'000, 100'000}});
  const TestRows rows(100'000);
  const TableExport some{
      .table = "t", .ids = {{rows.id[70'001], 12, rows.id[3]}}, .has_all_tensors = true};
  const auto print = [&](const std::string& format, const char* load) {
    return RunCommand(absl::StrCat(
        python, " -c \"import numpy as n, safetensors.numpy as s; a = ", load, "('",
        model.folder.Path("all." + format), "'); b = ", load, "('",
        model.folder.Path("some." + format),
        "'); print(a['id'].shape, a['weights'].shape, a['half'].dtype, a['uses'].dtype); "
        "print((a['weights'][[3, 70001]] == b['weights']).all(), "
        "(a['half'] == a['weights'].view('u4').__rshift__(16).__lshift__(16).view('f4')).all()); "
        "print(b['id'].tolist())\""));
  };
  REQUIRE(ExportNpz(checkpoint, kAll, model.folder.Path("all.npz")).ok());
  REQUIRE(ExportNpz(checkpoint, some, model.folder.Path("some.npz")).ok());
  REQUIRE(ExportTensors(checkpoint, kAll, model.folder.Path("all.safetensors")).ok());
  REQUIRE(ExportTensors(checkpoint, some, model.folder.Path("some.safetensors")).ok());
  for (const auto& printed : {print("npz", "n.load"), print("safetensors", "s.load_file")}) {
    CHECK(printed.error.empty());
    CHECK(printed.out == "(100000,) (100000, 3) float32 uint16\nTrue True\n[" +
                             std::to_string(rows.id[3]) + ", " + std::to_string(rows.id[70'001]) +
                             "]\n");
  }
}

}  // namespace
}  // namespace simurgh
