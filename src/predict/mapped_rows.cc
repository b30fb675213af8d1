#include "predict/mapped_rows.h"

#include <new>

#include "base/log.h"
#include "base/thread.h"
#include "model/row_files.h"

namespace simurgh {

Status CheckWeights(TensorFileReader& file, const std::atomic<bool>& ends) {
  constexpr uint64_t kPieceBytes = uint64_t{256} << 10;
  const TensorSpec* const weights = FindTensor(file.tensors(), "weights");
  if (weights == nullptr || weights->row_bytes() == 0) return absl::OkStatus();
  const uint64_t piece = std::max<uint64_t>(1, kPieceBytes / weights->row_bytes());
  std::vector<std::byte> bytes;
  for (uint64_t row = 0; row < weights->rows() && !ends; row += piece) {
    const uint64_t rows = std::min(piece, weights->rows() - row);
    bytes.resize(rows * weights->row_bytes());
    SIMURGH_RETURN_IF_ERROR(file.Read("weights", row, rows, bytes));
  }
  return absl::OkStatus();
}

WeightsCheck::WeightsCheck(std::vector<TensorFileReader> files)
    : thread_([this, own = std::move(files)]() mutable { Run(std::move(own)); }) {}

void WeightsCheck::Run(std::vector<TensorFileReader> files) {
  SetThreadName("rows-check");
  LowerPriority();
  for (TensorFileReader& file : files) {
    Status status;
    try {
      status = CheckWeights(file, ends_);
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError("no memory to check rows");
    }
    if (ends_) return;
    if (status.ok()) continue;
    {
      const MutexLock lock(mutex_);
      damage_ = status;
    }
    is_damaged_.store(true, std::memory_order_release);
    spdlog::error("the model: {}", std::string(status.message()));
    return;
  }
  spdlog::info("the model: all mapped rows have their checksums");
}

}  // namespace simurgh
