#include "bench/micro/ps/table_alone.h"

#include <chrono>
#include <numeric>
#include <thread>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh::bench {

StatusOr<std::unique_ptr<TableAlone>> TableAlone::Create(const ClusterConfig& config) {
  auto alone = std::make_unique<TableAlone>();
  for (uint64_t p = 0; p < config.embedding_ps.partitions; ++p) {
    SIMURGH_ASSIGN_OR_RETURN(auto partition, Partition::Create(config.tables, config.seed));
    alone->partitions_.push_back(std::move(partition));
  }
  alone->steps_.resize(alone->partitions_.size());
  return alone;
}

void TableAlone::Fill(const std::vector<PsBatch>& rows) {
  for (const PsBatch& batch : rows) {
    std::vector<float> values(batch.ids.size() * batch.group.dim);
    for (size_t p = 0; p < partitions_.size(); ++p) {
      const auto ids = batch.Of(p);
      const PullGroup group{0, ids, {values.data(), ids.size(), batch.group.dim}};
      SIMURGH_CHECK(
          testing::PullWhole(*partitions_[p], LookupMode::kTrain, {1, 0, 0}, 0, {&group, 1}).ok());
    }
  }
}

double TableAlone::Measure(const std::vector<PsBatch>& batches, bool push, size_t buffers,
                           double seconds) {
  std::vector<double> rates(partitions_.size());
  const auto run = [&](size_t p) {
    const uint32_t dim = batches[0].group.dim;
    std::vector<AlignedBuffer> rows;
    for (size_t i = 0; i < buffers; ++i) {
      rows.emplace_back(kBatchIds * dim * sizeof(float));
      std::ranges::fill(rows.back().as<float>(kBatchIds * dim), 1e-3F);
    }
    const auto start = std::chrono::steady_clock::now();
    std::chrono::duration<double> elapsed{};
    uint64_t done = 0;
    for (size_t i = 0; elapsed.count() < seconds; ++i) {
      const auto ids = batches[i % batches.size()].Of(p);
      float* const values = rows[i % buffers].as<float>(ids.size() * dim).data();
      const uint64_t step = steps_[p];
      if (push) {
        const PushGroup group{0, 0.01F, ids, {values, ids.size(), dim}};
        SIMURGH_CHECK(testing::PushWhole(*partitions_[p], {1, 0, step}, {&group, 1}).ok());
        ++steps_[p];
      } else {
        const PullGroup group{0, ids, {values, ids.size(), dim}};
        SIMURGH_CHECK(
            testing::PullWhole(*partitions_[p], LookupMode::kTrain, {1, 0, step}, 0, {&group, 1})
                .ok());
      }
      done += ids.size();
      elapsed = std::chrono::steady_clock::now() - start;
    }
    rates[p] = static_cast<double>(done) / elapsed.count();
  };
  std::vector<std::jthread> threads;
  for (size_t p = 1; p < partitions_.size(); ++p) threads.emplace_back(run, p);
  run(0);
  threads.clear();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace simurgh::bench
