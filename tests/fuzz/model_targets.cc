// Files of checkpoints: headers of tensor files, manifests.

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "model/manifest.h"
#include "model/tensor_file.h"
#include "tests/fuzz/targets.h"
#include "tests/support/memory_file_system.h"

namespace simurgh::fuzz {
namespace {

constexpr char kPath[] = "/file";

std::string TextOf(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// --- tensor_file: a whole file, and one whose length of the header is right.

void ReadFile(Input bytes) {
  testing::MemoryFileSystem files;
  SIMURGH_CHECK((*files.Create(kPath))->Write(0, bytes).ok());
  auto reader = TensorFileReader::Open(kPath, files);
  if (!reader.ok()) {
    SIMURGH_CHECK(absl::IsDataLoss(reader.status())) << reader.status();
    return;
  }
  uint64_t total = 0;
  for (const TensorSpec& spec : reader->tensors()) {
    total += spec.rows() * spec.row_bytes();
    SIMURGH_CHECK_LE(total, bytes.size());
    Bytes rows(spec.rows() * spec.row_bytes());
    const Status read = reader->Read(spec.name, 0, spec.rows(), rows);
    SIMURGH_CHECK(read.ok() || (reader->has_sums() && absl::IsDataLoss(read))) << read;
  }
}

void RunTensorFile(Input input) {
  ReadFile(input);
  const uint64_t length = input.size();
  ReadFile(SeedWriter().Value(length).Rest(input).bytes());
  // Of 64 bytes of data.
  ReadFile(SeedWriter().Value(length).Rest(input).Rest(Bytes(64)).bytes());
}

std::vector<Bytes> TensorFileSeeds() {
  testing::MemoryFileSystem files;
  auto writer = TensorFileWriter::Create(
      kPath, {{"id", DType::kU64, {2}}, {"w", DType::kF32, {2, 3}}, {"s", DType::kF64, {}}},
      {{"table", "t"}}, files);
  SIMURGH_CHECK(writer.ok());
  for (const auto& [name, bytes] : {std::pair("id", 16), {"w", 24}, {"s", 8}}) {
    SIMURGH_CHECK(writer->Write(name, Bytes(static_cast<size_t>(bytes))).ok());
  }
  SIMURGH_CHECK(writer->Finish().ok());
  const std::string file = *files.ReadFile(kPath, 1 << 20);
  const std::string header = file.substr(8, file.size() - 8 - 24 - 48);
  return {ToBytes(std::as_bytes(std::span(file))), ToBytes(std::as_bytes(std::span(header)))};
}

// --- manifest: what is read is written and read again as the same text.

void RunManifest(Input input) {
  const auto manifest = Manifest::FromJson(TextOf(input), Manifest::Checksum::kIgnored);
  if (!manifest.ok()) {
    SIMURGH_CHECK(absl::IsDataLoss(manifest.status()) ||
                  absl::IsFailedPrecondition(manifest.status()));
    return;
  }
  const std::string text = manifest->ToJson();
  const auto again = Manifest::FromJson(text);
  SIMURGH_CHECK(again.ok()) << again.status();
  SIMURGH_CHECK(again->ToJson() == text);
}

std::vector<Bytes> ManifestSeeds() {
  Manifest manifest;
  manifest.parent = {1, 2};
  manifest.position = "abc";
  manifest.metrics = {{"auc", 0.7}};
  manifest.config = {{"key", "value"}};
  manifest.statistics = {{"age", {1.5, -2}}};
  manifest.extra = {{"a", "b"}};
  manifest.files = {{"rows/t/0.safetensors", 1, 2}};
  const std::string text = manifest.ToJson();
  return {ToBytes(std::as_bytes(std::span(text)))};
}

}  // namespace

std::vector<Target> ModelTargets() {
  return {{"tensor_file", RunTensorFile, TensorFileSeeds},
          {"manifest", RunManifest, ManifestSeeds}};
}

}  // namespace simurgh::fuzz
