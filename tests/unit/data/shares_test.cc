// Readers that share out the rows of a data set.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

struct Share {
  std::vector<std::vector<float>> batches;  // Numbers of rows.
  uint64_t skipped_rows = 0;
};

Share Read(const std::vector<std::string>& files, size_t batch_size, const ReadOptions& options) {
  const auto reader = OpenBatchReader(LabelAndNumber(), {}, files, batch_size, options);
  REQUIRE(reader.ok());
  Share share;
  while (true) {
    const auto batch = (*reader)->Next();
    REQUIRE(batch.ok());
    if (!batch->has_value()) break;
    share.batches.push_back((*batch)->dense.values);
  }
  share.skipped_rows = (*reader)->skipped_rows();
  return share;
}

TEST_CASE("Without bad rows, the shares' batches in turn are the batches of the whole") {
  const TemporaryFolder folder;
  std::string text;
  for (int row = 0; row < 103; ++row) text += "1," + std::to_string(row) + "\n";
  const std::vector<std::string> files = {folder.Write("a.csv", text.substr(0, 200)),
                                          folder.Write("b.csv", text.substr(200))};
  const Share whole = Read(files, 10, {});
  const uint32_t shares = GENERATE(1U, 2U, 3U, 7U, 20U);
  const uint32_t piece = GENERATE(1U, 2U, 4U);  // Batches.
  std::vector<Share> parts;
  for (uint32_t share = 0; share < shares; ++share) {
    parts.push_back(Read(files, 10, {.share = share, .shares = shares, .piece_batches = piece}));
  }
  std::vector<std::vector<float>> in_turn;
  for (size_t b = 0; b < whole.batches.size(); ++b) {
    const size_t of_share = b / piece / shares * piece + b % piece;
    in_turn.push_back(parts[b / piece % shares].batches.at(of_share));
  }
  CHECK(in_turn == whole.batches);
}

TEST_CASE("Every row is in one share, bad rows and negatives that are left out too") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::string text;
    for (uint64_t row = 0; row < 50 + random.Below(200); ++row) {
      const std::string x = random.Below(10) == 0 ? "bad" : std::to_string(row);
      text += std::to_string(random.Below(2)) + "," + x + "\n";
      if (random.Below(20) == 0) text += "\n";
    }
    const TemporaryFolder folder;
    const std::vector<std::string> files = {folder.Write("a.csv", text)};
    const size_t batch_size = 1 + random.Below(9);
    const auto shares = static_cast<uint32_t>(1 + random.Below(6));
    ReadOptions options{.keep_negatives = 0.6, .seed = seed};
    options.piece_batches = static_cast<uint32_t>(1 + random.Below(3));
    const Share whole = Read(files, batch_size, options);
    std::vector<float> rows;
    uint64_t skipped = 0;
    options.shares = shares;
    for (options.share = 0; options.share < shares; ++options.share) {
      const Share part = Read(files, batch_size, options);
      skipped += part.skipped_rows;
      for (const auto& batch : part.batches) rows.insert(rows.end(), batch.begin(), batch.end());
    }
    std::sort(rows.begin(), rows.end());
    std::vector<float> expected;
    for (const auto& batch : whole.batches) {
      expected.insert(expected.end(), batch.begin(), batch.end());
    }
    REQUIRE(rows == expected);
    REQUIRE(skipped == whole.skipped_rows);
  }
}

TEST_CASE("What is left of a file with bad rows is what the file without them holds") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::string good;
    std::string text;
    uint64_t bad = 0;
    for (uint64_t row = 0; row < random.Below(200); ++row) {
      for (; random.Below(4) == 0; ++bad) {
        text += std::vector<std::string>{"1,much\n", "2,1\n", "1\n", "1,1,1\n", "1,\"1\n"}[bad % 5];
      }
      const std::string line = "0," + std::to_string(row) + "\n";
      good += line;
      text += line;
    }
    const TemporaryFolder folder;
    const size_t batch_size = 1 + random.Below(20);
    const Share whole = Read({folder.Write("a.csv", text)}, batch_size, {});
    REQUIRE(whole.batches == Read({folder.Write("b.csv", good)}, batch_size, {}).batches);
    REQUIRE(whole.skipped_rows == bad);
  }
}

}  // namespace
}  // namespace simurgh
