#include "tests/unit/model/model_files.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>

#include "base/check.h"

namespace simurgh::testing {

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  SIMURGH_CHECK(file.good()) << "cannot read " << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TestRows::TestRows(uint64_t count, uint64_t width) : rows(count), dim(width) {
  for (uint64_t row = 0; row < rows; ++row) {
    id.push_back(row * 0x9e3779b97f4a7c15ULL);
    uses.push_back(static_cast<uint16_t>(row * 7));
    for (uint64_t i = 0; i < dim; ++i) {
      weights.push_back(static_cast<float>(row) + static_cast<float>(i) / 8);
      bf16.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(weights.back()) >> 16));
    }
  }
}

std::vector<TensorSpec> TestRows::specs() const {
  return {{"uses", DType::kU16, {rows}},
          {"weights", DType::kF32, {rows, dim}},
          {"half", DType::kU16, {rows, dim}},
          {"id", DType::kU64, {rows}}};
}

TensorFileWriter TestRows::Create(const std::string& path, FileSystem& files) const {
  auto writer =
      TensorFileWriter::Create(path, specs(), {{"half.format", "bf16"}, {"table", "t"}}, files);
  SIMURGH_CHECK(writer.ok()) << writer.status();
  return *std::move(writer);
}

ModelFile TestRows::Write(const std::string& path, uint64_t step, FileSystem& files) const {
  TensorFileWriter writer = Create(path, files);
  for (uint64_t row = 0; row < rows; row += step) {
    const uint64_t count = std::min(step, rows - row);
    const std::vector<std::span<const std::byte>> parts{
        BytesOf(uses).subspan(row * 2, count * 2),
        BytesOf(weights).subspan(row * dim * 4, count * dim * 4),
        BytesOf(bf16).subspan(row * dim * 2, count * dim * 2),
        BytesOf(id).subspan(row * 8, count * 8)};
    const Status appended = writer.Append(count, parts);
    SIMURGH_CHECK(appended.ok()) << appended;
  }
  const auto file = writer.Finish();
  SIMURGH_CHECK(file.ok()) << file.status();
  return *file;
}

Manifest TestManifest() {
  Manifest manifest;
  manifest.run = 0xfedcba9876543210ULL;
  manifest.generation = 3;
  manifest.step = 1200;
  manifest.samples = (uint64_t{1} << 53) + 1;
  manifest.step_time = 1'790'000'001;
  manifest.parent = {1000, 0x0123456789abcdefULL};
  manifest.position = std::string("\0\xff bytes", 8);
  manifest.metrics = {{"auc", 0.1 + 0.2}, {"logloss", 5e-324}};
  manifest.config = {{"training.batch_size", "256"}, {"cluster.name", "\"é\" = x"}};
  manifest.statistics = {{"age", {1.0 / 3, -1e300, 0}}, {"none", {}}};
  manifest.extra = {{"wire", "bf16"}};
  manifest.files = {{"a.txt", 5, 0xffffffffffffffffULL}, {"rows/t/0.safetensors", 7, 1}};
  return manifest;
}

Checkpoint WriteCheckpoint(ModelDirectory& model, uint64_t step, uint64_t generation, uint64_t rows,
                           FileSystem& files) {
  auto attempt = model.Begin(step, generation);
  SIMURGH_CHECK(attempt.ok()) << attempt.status();
  TestRows(rows).Write(*attempt->Path("rows/t/0.safetensors"), 1000, files);
  const Status note = files.WriteFile(*attempt->Path("note.txt"), "step " + std::to_string(step));
  SIMURGH_CHECK(note.ok()) << note;
  Manifest manifest = TestManifest();
  manifest.parent.reset();
  manifest.files.clear();
  auto done = attempt->Publish(std::move(manifest));
  SIMURGH_CHECK(done.ok()) << done.status();
  return *std::move(done);
}

}  // namespace simurgh::testing
