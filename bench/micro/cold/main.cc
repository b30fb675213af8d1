// Rows on disk, against rows in memory and against RocksDB. See --help.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "bench/datagen/zipf.h"
#include "bench/micro/cold/tier.h"
#include "bench/support/flags.h"
#include "table/arena.h"
#include "table/cold_disk.h"
#include "table/cold_rows.h"
#include "table/memory_budget.h"
#include "table/row_store.h"
#include "table/table.h"
#include "tensor/matrix_view.h"

namespace simurgh::bench {
namespace {

constexpr char kAbout[] =
    R"(bench_cold: a table with most rows on disk

Usage: bench_cold [options]

Creates all rows of a table with Adagrad. Then pulls and pushes batches of distinct ids, drawn by
Zipf's law. The reads of a batch begin one batch ahead, as those of a training with staleness 1 do.
Prints for the table in memory and for one with cold rows:
  rows_per_s     rows pulled and pushed in a second
  hits           share of the pulls' rows that were in memory
  late           share of the pulls' rows that were waited for
  amplification  bytes written to disk, over the bytes of the rows that left memory while it ran
  space          bytes on disk, over those of its rows
  piece_p99_ms   time to pull 4,096 rows, 99th percentile; piece_max_ms: the longest
  resident_mb    resident memory of this process
With --tier: takes random rows out of the tier and puts them back; rows_per_s counts each row once.
Without RocksDB's headers at the build, --tier has no peer.

Exit codes: 0 done, 1 failed, 2 bad options.
)";

struct Options {
  uint64_t rows;
  uint64_t dim;
  double share;
  double zipf;
  uint64_t batch;
  uint64_t batches;
  bool tier = false;
  std::string folder;
  bool json;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("bench_cold", kAbout);
  flags.Number("rows", options.rows, 1000, 1e10, {"20000000", "1000000"}, "rows of the table");
  flags.Number("dim", options.dim, 1, 1024, {"16"}, "weights of a row");
  flags.Number("share", options.share, 0.001, 0.9, {"0.1"}, "share of rows in memory");
  flags.Number("zipf", options.zipf, 0.1, 3, {"1.05"}, "exponent of the ids' distribution");
  flags.Number("batch", options.batch, 1, 1e6, {"20000"}, "distinct ids of a batch");
  flags.Number("batches", options.batches, 1, 1e6, {"500", "50"},
               "batches that are measured, after a fifth of them");
  flags.Switch("tier", options.tier, "measure the tier alone, and RocksDB");
  flags.File("folder", options.folder, "folder on the disk (default: build/bench/files)");
  flags.Parse(argc, argv);
  if (options.folder.empty()) options.folder = "build/bench/files";
  std::filesystem::create_directories(options.folder);
  options.json = flags.json();
  return options;
}

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TableConfig ConfigOf(const Options& options, bool is_cold) {
  TableConfig config;
  config.name = "t";
  config.dim = static_cast<uint32_t>(options.dim);
  config.capacity_rows = options.rows + 1000;
  config.optimizer.kind = SparseOptimizerConfig::Kind::kAdagrad;
  if (is_cold) {
    config.memory_rows = static_cast<uint64_t>(static_cast<double>(options.rows) * options.share);
  }
  return config;
}

void MeasureTable(const Options& options, bool is_cold) {
  const TableConfig config = ConfigOf(options, is_cold);
  const auto disk = is_cold ? ColdDisk::Create(options.folder).value() : nullptr;
  Arena arena = Arena::Create(Table::ReservationFor(config)).value();
  Table table(config, 1, arena, nullptr, disk.get());
  std::vector<uint64_t> ids(options.batch);
  std::vector<float> values(options.batch * options.dim);
  uint64_t stamp = 0;
  for (uint64_t row = 0; row < options.rows; row += ids.size()) {
    ids.resize(std::min(options.batch, options.rows - row));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = Mix64(row + i);
    table.Pull(ids, MatrixView<float>(values.data(), ids.size(), config.dim), ++stamp);
  }
  ZipfSampler zipf(options.rows, options.zipf);
  Random random(1);
  const auto draw = [&] {
    std::unordered_set<uint64_t> drawn;
    while (drawn.size() < options.batch) drawn.insert(Mix64(zipf.Draw(random)));
    return std::vector<uint64_t>(drawn.begin(), drawn.end());
  };
  const std::vector<float> gradients(options.batch * options.dim, 0.01F);
  const MatrixView<float> to(values.data(), options.batch, config.dim);
  const MatrixView<const float> from(gradients.data(), options.batch, config.dim);
  constexpr size_t kPiece = 4096;  // What a server's thread pulls without a break.
  double seconds = 0;
  std::vector<double> piece_seconds;
  TableStats begin;
  std::vector<uint64_t> next = draw();
  std::unique_ptr<Table::Ahead> ahead = table.ReadAhead(next, ColdDisk::Urgency::kNormal);
  const uint64_t warm_up = options.batches / 5;
  for (uint64_t b = 0; b < warm_up + options.batches; ++b) {
    if (b == warm_up) begin = table.stats();
    const std::vector<uint64_t> now = std::exchange(next, draw());
    const auto start = Clock::now();
    const std::unique_ptr<Table::Ahead> own =
        std::exchange(ahead, table.ReadAhead(next, ColdDisk::Urgency::kNormal));
    // A server's pull waits, too.
    while (own != nullptr && !own->done()) std::this_thread::yield();
    ++stamp;
    for (size_t at = 0; at < now.size(); at += kPiece) {
      const size_t count = std::min(kPiece, now.size() - at);
      const auto piece_start = Clock::now();
      table.Pull(std::span(now).subspan(at, count), to.Rows(at, count), stamp);
      if (b >= warm_up) piece_seconds.push_back(SecondsSince(piece_start));
    }
    table.Push(now, from, 0.01F, stamp);
    if (b >= warm_up) seconds += SecondsSince(start);
  }
  SIMURGH_CHECK(table.failure().ok()) << table.failure().ToString();
  const TableStats end = table.stats();
  std::ranges::sort(piece_seconds);
  const auto rows = static_cast<double>(options.batches * options.batch);
  const double cooled = static_cast<double>(end.cooled - begin.cooled);
  const uint64_t record = RowLayout(RowStore::FormatOf(config)).stride_bytes;
  const double written = static_cast<double>(end.cold_written_bytes - begin.cold_written_bytes);
  const double warmed = static_cast<double>(end.warmed - begin.warmed);
  const double late = static_cast<double>(end.cold_late - begin.cold_late);
  const double live = static_cast<double>(end.cold_rows * record);
  std::printf(options.json ? "{\"subject\":\"%s\",\"rows\":%llu,\"rows_per_s\":%.0f,\"hits\":%.4f,"
                             "\"late\":%.5f,\"amplification\":%.3f,\"space\":%.3f,"
                             "\"piece_p99_ms\":%.3f,\"piece_max_ms\":%.3f,"
                             "\"resident_mb\":%.0f}\n"
                           : "%-8s rows=%llu rows_per_s=%.0f hits=%.4f late=%.5f "
                             "amplification=%.3f space=%.3f piece_p99_ms=%.3f piece_max_ms=%.3f "
                             "resident_mb=%.0f\n",
              is_cold ? "cold" : "memory", static_cast<unsigned long long>(options.rows),
              rows / seconds, 1 - warmed / rows, late / rows,
              cooled > 0 ? written / (cooled * static_cast<double>(record)) : 0,
              live > 0 ? static_cast<double>(end.cold_disk_bytes) / live : 0,
              piece_seconds[piece_seconds.size() * 99 / 100] * 1e3, piece_seconds.back() * 1e3,
              static_cast<double>(ResidentBytes()) / 1e6);
}

class ColdTier : public Tier {
 public:
  ColdTier(const std::string& folder, const RowLayout& layout)
      : disk_(ColdDisk::Create(folder).value()),
        rows_(*disk_, layout),
        record_bytes_(layout.stride_bytes) {}

  void Add(std::span<const uint64_t> ids, std::span<const std::byte> records) override {
    for (size_t i = 0; i < ids.size(); ++i) {
      SIMURGH_CHECK(rows_.Add(&records[i * record_bytes_]).ok());
    }
    SIMURGH_CHECK(rows_.Maintain().ok());
  }
  void Take(std::span<const uint64_t> ids, std::vector<std::byte>& records) override {
    const auto found = rows_.Fetch(ids);
    SIMURGH_CHECK(found.ok() && found->size() == ids.size());
    records.resize(ids.size() * record_bytes_);
    for (const ColdRows::Row& row : *found) {
      std::memcpy(&records[row.at * record_bytes_], row.record, record_bytes_);
      rows_.Remove(row);
    }
  }
  uint64_t written_bytes() const override { return rows_.counts().written_bytes; }
  uint64_t disk_bytes() const override { return rows_.disk_bytes(); }

 private:
  const std::unique_ptr<ColdDisk> disk_;
  ColdRows rows_;
  const uint64_t record_bytes_;
};

void MeasureTier(const Options& options, const std::string& name, Tier& tier, uint64_t record) {
  std::vector<std::byte> records(options.batch * record);
  const auto set_ids = [&](std::span<const uint64_t> ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      std::memcpy(&records[i * record], &ids[i], sizeof(uint64_t));
    }
  };
  std::vector<uint64_t> ids;
  for (uint64_t row = 0; row < options.rows; row += ids.size()) {
    ids.resize(std::min(options.batch, options.rows - row));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = Mix64(row + i);
    set_ids(ids);
    tier.Add(ids, std::span(records).first(ids.size() * record));
  }
  Random random(1);
  double seconds = 0;
  const uint64_t warm_up = options.batches / 5;
  uint64_t written = 0;
  for (uint64_t b = 0; b < warm_up + options.batches; ++b) {
    std::unordered_set<uint64_t> drawn;
    while (drawn.size() < options.batch) drawn.insert(Mix64(random.Below(options.rows)));
    ids.assign(drawn.begin(), drawn.end());
    if (b == warm_up) written = tier.written_bytes();
    const auto start = Clock::now();
    tier.Take(ids, records);
    tier.Add(ids, records);
    if (b >= warm_up) seconds += SecondsSince(start);
  }
  const auto rows = static_cast<double>(options.batches * options.batch);
  const double bytes = static_cast<double>(tier.written_bytes() - written);
  std::printf(options.json ? "{\"subject\":\"%s\",\"rows\":%llu,\"rows_per_s\":%.0f,"
                             "\"amplification\":%.3f,\"space\":%.3f}\n"
                           : "%-8s rows=%llu rows_per_s=%.0f amplification=%.3f space=%.3f\n",
              name.c_str(), static_cast<unsigned long long>(options.rows), rows / seconds,
              bytes / (rows * static_cast<double>(record)),
              static_cast<double>(tier.disk_bytes()) /
                  (static_cast<double>(options.rows) * static_cast<double>(record)));
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  if (!options.tier) {
    MeasureTable(options, /*is_cold=*/false);
    MeasureTable(options, /*is_cold=*/true);
    return 0;
  }
  const RowLayout layout(RowStore::FormatOf(ConfigOf(options, /*is_cold=*/true)));
  {
    ColdTier tier(options.folder, layout);
    MeasureTier(options, "simurgh", tier, layout.stride_bytes);
  }
#ifdef SIMURGH_HAS_ROCKSDB
  const std::string folder = options.folder + "/rocksdb";
  {
    const auto tier = NewRocksDbTier(folder, layout.stride_bytes);
    MeasureTier(options, "rocksdb", *tier, layout.stride_bytes);
  }
  std::filesystem::remove_all(folder);
#endif
  return 0;
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) { return simurgh::bench::Main(argc, argv); }
