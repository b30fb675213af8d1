#include "bench/micro/table/id_spaces.h"

#include <cstdint>

#include "bench/micro/table/batches.h"
#include "bench/micro/table/table_subject.h"

namespace simurgh::bench {
namespace {

constexpr uint64_t kIds = 800'000'000'000;
constexpr uint64_t kDistance = (uint64_t{1} << 63) / kIds;
constexpr uint64_t kNumbersPerRow = 8;
constexpr size_t kRowsPerTurn = 1 << 19;
// Unmeasured turns at the start, until the table holds the popular rows.
constexpr uint64_t kWarmTurns = 2;

uint64_t SmallId(uint64_t number) { return number; }
uint64_t SpreadId(uint64_t number) { return IdOf(number) % kIds * kDistance; }

// A table and what its ids are.
class Space {
 public:
  Space(const TableConfig& config, size_t batch, uint64_t (*id_of)(uint64_t))
      : table_(config),
        rows_(config.capacity_rows),
        batch_(batch),
        id_of_(id_of),
        out_(batch * config.dim),
        gradients_(batch * config.dim, 0.001F) {
    Batch some;
    for (uint64_t first = 0; first + batch <= rows_; first += batch) {
      some.ids.clear();
      for (size_t i = 0; i < batch; ++i) some.ids.push_back(id_of(first + i));
      table_.Pull(some, out_.data());
    }
    for (uint64_t turn = 0; turn < kWarmTurns; ++turn) Turn();
  }

  // Ids a second, pulled and pushed.
  double Turn() {
    std::vector<Batch> batches = DrawBatches(Distribution::kZipf, kNumbersPerRow * rows_, batch_,
                                             kRowsPerTurn / batch_, ++turn_);
    for (Batch& drawn : batches) {
      for (size_t i = 0; i < batch_; ++i) drawn.ids[i] = id_of_(drawn.rows[i]);
    }
    const double seconds = SecondsOf(1, [&](size_t) {
      for (const Batch& drawn : batches) {
        table_.Pull(drawn, out_.data());
        table_.Push(drawn, gradients_.data());
      }
    });
    return static_cast<double>(batches.size() * batch_) / seconds;
  }

  TableStats stats() const { return table_.stats(); }

 private:
  TableSubject table_;
  uint64_t rows_;
  size_t batch_;
  uint64_t (*id_of_)(uint64_t);
  std::vector<float> out_;
  std::vector<float> gradients_;
  uint64_t turn_ = 0;  // Both spaces draw the same in the same turn.
};

}  // namespace

IdSpaces MeasureIdSpaces(const TableConfig& config, size_t batch, size_t turns) {
  Space small(config, batch, SmallId);
  Space spread(config, batch, SpreadId);
  const TableStats before = spread.stats();
  IdSpaces spaces;
  spaces.measurements.push_back({.name = "small_ids", .run = [&] { return small.Turn(); }});
  spaces.measurements.push_back(
      {.name = "spread_ids", .limit = 0, .run = [&] { return spread.Turn(); }});
  RunTurns(spaces.measurements, turns);
  for (Measurement& measurement : spaces.measurements) measurement.run = nullptr;
  const TableStats after = spread.stats();
  const uint64_t pulled = after.hits + after.created - before.hits - before.created;
  spaces.bytes_per_row = static_cast<double>(after.bytes) / static_cast<double>(after.rows);
  spaces.evicted =
      static_cast<double>(after.evicted - before.evicted) / static_cast<double>(pulled);
  return spaces;
}

}  // namespace simurgh::bench
