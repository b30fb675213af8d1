// `simurgh export` of models that trainers have left, read by other programs.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "tests/cluster/trained_model.h"
#include "tests/support/python.h"
#include "tests/unit/model/model_files.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;

CommandResult Export(const std::string& arguments) {
  CommandResult result = Simurgh("export " + arguments);
  INFO(result.error);
  REQUIRE(result.exit_code == 0);
  return result;
}

TEST_CASE("Exported features are the numbers of the rows") {
  const std::string python = Python("numpy, safetensors.numpy");
  const TemporaryFolder folder;
  const Trained trained(PlainConfig(folder));
  const std::string to = absl::StrCat("features --model ", trained.model, " --output ");
  const std::string tensors = folder.Path("f.safetensors");
  const std::string arrays = folder.Path("f.npz");
  CHECK_THAT(Export(absl::StrCat(to, tensors, " --input ", trained.test)).error,
             Contains("rows=4000 bad_rows=0 "));
  Export(absl::StrCat(to, arrays, " --input - < ", trained.test));
  const CommandResult same =
      RunCommand(absl::StrCat(python, " tests/cluster/features_reference.py ", trained.test, " ",
                              tensors, " ", arrays, " C1 C2 C3 C20"));
  INFO(same.error);
  CHECK(same.out == "4000\n");

  const auto print = [&](const std::string& what) {
    return RunCommand(absl::StrCat(python, " -c 'from safetensors.numpy import load_file; t = ",
                                   "load_file(\"", tensors, "\"); print(", what, ")'"))
        .out;
  };
  const std::string rows = folder.Write("rows.tsv", "x\n" + trained.Rows(2) + "1\n");
  CHECK_THAT(Export(absl::StrCat(to, tensors, " --input ", rows)).error,
             Contains("rows.tsv:1: ") && Contains("rows=2 bad_rows=2 "));
  CHECK(print("t[\"labels\"].shape, t[\"dense\"].shape") == "(2, 1) (2, 13)\n");
  const std::string empty = folder.Write("empty.tsv", "");
  Export(absl::StrCat(to, tensors, " --input ", empty));
  CHECK(print("t[\"labels\"].shape, t[\"C1.ids\"].shape, t[\"C1.offsets\"]") ==
        "(0, 1) (0,) [0]\n");
  const std::string unlabeled = folder.Path("unlabeled.tsv");
  REQUIRE(RunCommand(absl::StrCat("cut -f2- ", trained.test, " > ", unlabeled)).exit_code == 0);
  Export(absl::StrCat(to, tensors, " --unlabeled --input ", unlabeled));
  CHECK(print("\"labels\" in t, t[\"dense\"].shape") == "False (4000, 13)\n");
}

}  // namespace
}  // namespace simurgh::testing
