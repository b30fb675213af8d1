// Fills a file system of a few MiB, mounted in a private mount namespace.

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "tests/support/skip.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/model_files.h"

namespace simurgh {
namespace {

using testing::BytesOf;
using testing::TestRows;

// How a child ends.
enum Ending { kAsItShould, kNoMounts, kNotRefused, kBadMessage, kFileLeft, kLaterFailure };

// 16 MB, then 2 MB, into 4 MiB.
Ending WriteTooMuch(const std::string& folder) {
  if (!MountSmallFileSystem(folder, 4)) return kNoMounts;
  const std::string path = folder + "/t.safetensors";
  const Status status =
      TensorFileWriter::Create(path, {{"a", DType::kU8, {16, 1'000'000}}}, {}).status();
  if (!absl::IsResourceExhausted(status)) return kNotRefused;
  const std::string message(status.message());
  if (!message.starts_with(folder + ": the disk is full: " + path + " needs 160") ||
      message.find(" bytes, and 41") == message.npos ||
      message.find(" are free; free some, or use another folder") == message.npos) {
    return kBadMessage;
  }
  if (!std::filesystem::is_empty(folder)) return kFileLeft;
  auto small = TensorFileWriter::Create(path, {{"a", DType::kU8, {2'000'000}}}, {});
  if (!small.ok()) return kLaterFailure;
  // The room is reserved: what others write does not take it.
  TensorFileWriter::Create(folder + "/b", {{"a", DType::kU8, {2'100'000}}}, {}).IgnoreError();
  if (!small->Write("a", BytesOf(std::vector<uint8_t>(2'000'000))).ok()) return kLaterFailure;
  return small->Finish().ok() ? kAsItShould : kLaterFailure;
}

TEST_CASE("A full disk is an error before a byte is written, with folder, need and room") {
  const TemporaryFolder folder;
  const int ending = RunInChild([&] { return WriteTooMuch(folder.path()); });
  if (ending == kNoMounts) SIMURGH_SKIP("this process may not mount a file system");
  CHECK(ending == kAsItShould);
}

}  // namespace
}  // namespace simurgh
