#pragma once

#include <atomic>
#include <string>

#include "collective/nccl_library.h"
#include "tests/unit/collective/rank_board.h"

namespace simurgh::testing {

// Stands in for NCCL where ranks are threads: a board does the work, at the call.
//
// Threads: one object a rank.
class FakeNccl final : public NcclLibrary {
 public:
  FakeNccl(RankBoard& board, uint32_t rank) : board_(board), rank_(rank) {}

  StatusOr<NcclId> NewId() override {
    NcclId id{};
    id.fill(std::byte{42});
    return id;
  }
  StatusOr<Handle> Connect(const NcclId& id, uint32_t rank, uint32_t ranks, int device) override {
    device_ = device;
    if (id != *NewId() || rank != rank_ || ranks != board_.ranks()) {
      return absl::InternalError("ranks disagree");
    }
    return this;
  }
  Progress StateOf(Handle) override {
    // A slow operation completes after `questions_` queries.
    if (questions_ > 0) {
      --questions_;
      return {State::kInProgress, ""};
    }
    if (stuck_) return {State::kInProgress, ""};
    return error_.empty() ? Progress() : Progress{State::kFailed, error_};
  }
  void Abort(Handle) override {
    ++aborts_;
    board_.GiveUp();
  }
  Status Finish(Handle) override {
    ++finishes_;
    stuck_ = stuck_ || hangs_at_end_;
    return absl::OkStatus();
  }
  void Free(Handle) override { ++frees_; }

  Status Sum(Handle, std::span<float> values, void*) override {
    questions_ = 3;
    return Of(board_.Sum(rank_, values));
  }
  Status Sum(Handle, std::span<double> values, void*) override {
    return Of(board_.Sum(rank_, values));
  }
  Status Exchange(Handle, const std::byte* outgoing, std::byte* incoming, size_t part_bytes,
                  void*) override {
    return Of(board_.Exchange(rank_, outgoing, incoming, part_bytes));
  }
  Status Gather(Handle, std::span<const std::byte> own, std::byte* all, void*) override {
    return Of(board_.Gather(rank_, own, all));
  }

  std::atomic<int> device_ = -1;  // Of Connect(). Threads: any.
  int aborts_ = 0;
  int finishes_ = 0;
  int frees_ = 0;
  int questions_ = 0;
  bool stuck_ = false;
  bool hangs_at_end_ = false;  // Finish waits for another rank.
  std::string error_;          // Shows on a stream.

 private:
  static Status Of(bool done) {
    return done ? absl::OkStatus() : absl::InternalError("NCCL: internal error");
  }

  RankBoard& board_;
  const uint32_t rank_;
};

}  // namespace simurgh::testing
