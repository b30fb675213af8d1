#include "simurgh/model/npz_writer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <minizip/zip.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace simurgh {
namespace {

const char* NpyType(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "|u1";
    case DType::kU16:
      return "<u2";
    case DType::kU32:
      return "<u4";
    case DType::kU64:
      return "<u8";
    case DType::kF16:
      return "<f2";
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
  }
  return "";
}

// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, version 1.0.
std::string NpyHeader(const TensorSpec& tensor) {
  std::string text =
      absl::StrCat("{'descr': '", NpyType(tensor.dtype), "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(tensor.shape, ", "), tensor.shape.size() == 1 ? ",), }" : "), }");
  constexpr size_t kPrefix = 10;
  text.append(63 - (kPrefix + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() % 256);
  header += static_cast<char>(text.size() / 256);
  return header + text;
}

}  // namespace

struct NpzWriter::State {
  void Note(int result) { failed = failed || result != ZIP_OK; }
  void EndEntry() {
    if (std::exchange(has_entry, false)) Note(zipCloseFileInZip(zip));
  }

  std::string path;
  zipFile zip;
  bool failed;
  bool has_entry = false;
};

NpzWriter::NpzWriter(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->zip = zipOpen64(path.c_str(), 0);
  state_->failed = state_->zip == nullptr;
}

NpzWriter::~NpzWriter() {
  if (state_->zip != nullptr) zipClose(state_->zip, nullptr);
}

void NpzWriter::Begin(const TensorSpec& tensor) {
  constexpr int kStored = 0;
  constexpr int kZip64 = 1;
  state_->EndEntry();
  state_->Note(zipOpenNewFileInZip64(state_->zip, (tensor.name + ".npy").c_str(), nullptr, nullptr,
                                     0, nullptr, 0, nullptr, kStored, 0, kZip64));
  state_->has_entry = !state_->failed;
  const std::string header = NpyHeader(tensor);
  Write(std::as_bytes(std::span(header)));
}

void NpzWriter::Write(std::span<const std::byte> bytes) {
  constexpr size_t kMost = size_t{1} << 30;
  while (!bytes.empty() && !state_->failed) {
    const size_t count = std::min(bytes.size(), kMost);
    state_->Note(zipWriteInFileInZip(state_->zip, bytes.data(), static_cast<unsigned>(count)));
    bytes = bytes.subspan(count);
  }
}

Status NpzWriter::Finish() {
  state_->EndEntry();
  if (state_->zip != nullptr) state_->Note(zipClose(std::exchange(state_->zip, nullptr), nullptr));
  if (!state_->failed) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(state_->path, ": cannot write it; is the disk full, or the folder missing?"));
}

}  // namespace simurgh
