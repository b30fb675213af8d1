#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model_directory.h"
#include "model/tensor_file.h"

namespace simurgh::testing {

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text);

// Rows as of a table: `id`, `weights` [rows, dim], `uses`, and weights in bf16.
struct TestRows {
  explicit TestRows(uint64_t rows, uint64_t dim = 3);

  std::vector<TensorSpec> specs() const;
  TensorFileWriter Create(const std::string& path, FileSystem& files = FileSystem::Real()) const;
  // Appends all rows, `step` at a time, and finishes the file.
  ModelFile Write(const std::string& path, uint64_t step,
                  FileSystem& files = FileSystem::Real()) const;

  uint64_t rows;
  uint64_t dim;
  std::vector<uint64_t> id;
  std::vector<float> weights;
  std::vector<uint16_t> uses;
  std::vector<uint16_t> bf16;  // The upper halves of the weights.
};

// A manifest in which every field has a value.
Manifest TestManifest();

// Writes a checkpoint with rows/t/0.safetensors of `rows` rows and note.txt.
Checkpoint WriteCheckpoint(ModelDirectory& model, uint64_t step, uint64_t generation,
                           uint64_t rows = 100, FileSystem& files = FileSystem::Real());

}  // namespace simurgh::testing
