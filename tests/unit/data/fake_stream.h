#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "data/reading/record_stream.h"

namespace simurgh {

// A stream of given records.
class FakeStream final : public RecordStream {
 public:
  struct Step {
    std::string partition;  // Empty: no record for now.
    uint64_t offset = 0;
    std::optional<std::string> value;
  };

  explicit FakeStream(std::deque<Step> steps) : steps_(std::move(steps)) {}

  StatusOr<std::optional<Record>> Next() override {
    if (steps_.empty()) return std::nullopt;
    now_ = steps_.front();
    steps_.pop_front();
    if (now_.partition.empty()) return std::nullopt;
    Record record{.value = std::nullopt, .partition = now_.partition, .offset = now_.offset};
    if (now_.value) record.value = *now_.value;
    return record;
  }
  bool has_ended() const override { return steps_.empty(); }
  const StreamOffsets& offsets() const override { return offsets_; }
  void Stop() override {}

  StreamOffsets offsets_;

 private:
  std::deque<Step> steps_;
  Step now_;
};

}  // namespace simurgh
