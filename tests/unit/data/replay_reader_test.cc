#include "data/reading/replay_reader.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

// Batches of given numbers of samples; the rows of batch i end at i + 1.
class SizedBatches final : public BatchReader {
 public:
  SizedBatches(std::vector<size_t> sizes, float label) : sizes_(std::move(sizes)), label_(label) {}

  StatusOr<std::optional<Batch>> Next() override {
    if (next_ == sizes_.size()) return std::nullopt;
    Batch batch;
    batch.dense.batch_size = sizes_[next_];
    batch.dense.labels.assign(sizes_[next_], label_);
    batch.progress.next.row = ++next_;
    return batch;
  }
  uint64_t skipped_rows() const override { return next_; }

 private:
  const std::vector<size_t> sizes_;
  const float label_;
  size_t next_ = 0;
};

// "n" for a batch of new rows, "o" of old ones, each with the row of its progress.
std::string Mix(size_t batches, const std::vector<size_t>& old, double share, size_t least = 4) {
  const auto open = [&](uint32_t /*time*/) { return std::make_unique<SizedBatches>(old, 0.0F); };
  ReplayReader reader(std::make_unique<SizedBatches>(std::vector<size_t>(batches, 4), 1.0F), open,
                      share, least);
  std::string text;
  for (;;) {
    const StatusOr<std::optional<Batch>> batch = reader.Next();
    if (!batch.ok()) return text + std::string(batch.status().message());
    if (!*batch) return text;
    text += (**batch).dense.labels[0] == 1 ? "n" : "o";
    text += std::to_string((**batch).progress.next.row);
  }
}

TEST_CASE("Older batches have equal distances, and the progress of the batch before") {
  CHECK(Mix(5, {4, 4, 4, 4}, 0.5) == "n1o1n2o2n3o3n4o4n5");
  CHECK(Mix(8, {4, 4}, 0.2) == "n1n2n3n4o4n5n6n7n8");
  CHECK(Mix(3, {4, 4}, 0) == "n1n2n3");
  CHECK(Mix(2, {4, 4}, 0.75) == "n1o1o1o1n2");
}

TEST_CASE("Older rows begin again at their end, without batches that are too small") {
  CHECK(Mix(4, {4, 2}, 0.5) == "n1o1n2o2n3o3n4");
  CHECK(Mix(2, {2}, 0.5, 1) == "n1o1n2");
  CHECK_THAT(Mix(2, {2}, 0.5), Catch::StartsWith("n1data.replay: the files have no full batch"));
  CHECK_THAT(Mix(2, {}, 0.5, 1), Catch::StartsWith("n1data.replay: the files have no full batch"));
}

}  // namespace
}  // namespace simurgh
