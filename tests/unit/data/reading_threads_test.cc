// Several threads that read and parse rows: batches and all else are those of one thread.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "data/batch/data_position.h"
#include "data/reading/batch_reader.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;

DataConfig Config() {
  DataConfig config;
  config.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense),
                    Column("w", Kind::kWeight), Column("a", Kind::kId), Column("g", Kind::kGroup)};
  config.columns[3].separator = ' ';
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  config.max_bad_share = 1;
  return config;
}

// Rows that fill many blocks of a reader. Some are bad, have a warning, or weights of ids.
std::string Rows(int first, int count) {
  std::string text;
  for (int n = first; n < first + count; ++n) {
    if (n % 97 == 0) {
      text += "bad\n";
      continue;
    }
    absl::StrAppend(&text, n % 3 == 0 ? 1 : 0, ",", n % 501 == 0 ? "1e9" : absl::StrCat(n % 10),
                    ",", n % 5, ",");
    for (int id = 0; id < n % 4; ++id)
      absl::StrAppend(&text, id == 0 ? "" : " ", (n * 7 + id) % 900);
    absl::StrAppend(&text, ",user", n % 11 == 0 ? "" : absl::StrCat(n % 50), "\n");
  }
  return text;
}

// All that a reader gives, as text.
std::vector<std::string> ReadAll(const DataConfig& config, const std::vector<std::string>& files,
                                 ReadOptions options, size_t batch_size) {
  std::vector<std::string> all;
  options.on_row = [&all](std::string_view row, bool in_batch) {
    all.push_back(absl::StrCat(in_batch ? "+" : "-", std::string(row)));
  };
  const auto reader = OpenBatchReader(config, {Feature("a")}, files, batch_size, options);
  REQUIRE(reader.status() == absl::OkStatus());
  for (;;) {
    const auto batch = (*reader)->Next();
    if (!batch.ok()) {
      all.push_back(absl::StrCat("error: ", std::string(batch.status().message())));
      if (!absl::IsInvalidArgument(batch.status())) return all;
      continue;
    }
    if (!batch->has_value()) break;
    std::string text = absl::StrCat("skipped=", (*reader)->skipped_rows());
    const auto add = [&text](const auto& values) {
      text += "|";
      for (const auto value : values) absl::StrAppend(&text, value, " ");
    };
    add((*batch)->dense.labels);
    add((*batch)->dense.values);
    add((*batch)->dense.groups);
    add((*batch)->sparse->ids);
    add((*batch)->sparse->offsets);
    add((*batch)->sparse->occurrences);
    add((*batch)->sparse->weights);
    const ShareProgress& progress = (*batch)->progress;
    absl::StrAppend(&text, "|", progress.files, " ", progress.next.row, " ", progress.rows, " ",
                    progress.place.row, " ", progress.place.file, " ", progress.place.at[1]);
    all.push_back(text);
  }
  return all;
}

TEST_CASE("Batches do not depend on the number of reading threads") {
  const TemporaryFolder folder;
  const std::vector<std::string> files = {
      folder.Write("a.csv", Rows(1, 5'000)), folder.Write("b.csv", ""),
      folder.Write("c.csv.gz", Gzip(Rows(5'001, 2'000))), folder.Write("d.csv", Rows(7'001, 700))};
  const size_t batch_size = GENERATE(1, 100, 1'500);
  const uint32_t shares = GENERATE(1U, 3U);
  DataPosition position;
  position.SetWindow(GENERATE(0U, 3'000U));
  for (uint32_t share = 0; share < shares; ++share) {
    ReadOptions options{.keep_negatives = share == 0 ? 0.5 : 1.0,
                        .seed = 7,
                        .share = share,
                        .shares = shares,
                        .piece_batches = 2,
                        .read = &position};
    const std::vector<std::string> one = ReadAll(Config(), files, options, batch_size);
    REQUIRE(one.size() > 7'700 / shares / 2);
    for (const uint32_t threads : {2, 5}) {
      options.threads = threads;
      REQUIRE(ReadAll(Config(), files, options, batch_size) == one);
    }
  }
}

TEST_CASE("Threads report errors in the order of rows") {
  const TemporaryFolder folder;
  std::string damaged = Gzip(Rows(5'001, 3'000));
  damaged.resize(damaged.size() / 2);
  const std::vector<std::string> files = {folder.Write("a.csv", Rows(1, 5'000)),
                                          folder.Write("b.csv.gz", damaged)};
  DataConfig config = Config();
  config.on_bad_row = DataConfig::OnBadRow::kFail;
  const std::vector<std::string> one = ReadAll(config, files, {}, 100);
  CHECK(one.back().starts_with("error: " + files[1]));
  CHECK(std::ranges::count_if(
            one, [](const std::string& text) { return text.starts_with("error: "); }) > 50);
  CHECK(ReadAll(config, files, {.threads = 3}, 100) == one);
}

TEST_CASE("A reader with threads ends before its files do") {
  const TemporaryFolder folder;
  const std::vector<std::string> files = {folder.Write("a.csv", Rows(1, 30'000))};
  const auto reader = OpenBatchReader(Config(), {Feature("a")}, files, 10, {.threads = 3});
  REQUIRE(reader.ok());
  CHECK((*reader)->Next().ok());
}

}  // namespace
}  // namespace simurgh
