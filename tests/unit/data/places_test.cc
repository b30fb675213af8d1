// Reading that continues at every batch, in every format, without the bytes before.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "data/batch/data_position.h"
#include "data/reading/batch_reader.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Format = DataConfig::Format;
using Kind = ColumnConfig::Kind;

constexpr uint32_t kBatchSize = 5;

struct Example {
  std::string name;
  DataConfig config;
  std::vector<FeatureConfig> features;
  std::string header;              // Of each file.
  std::string (*row)(int number);  // Every eleventh is a bad one.
};

// Rows of some formats have 2 KiB of padding, so that files have several places to begin at.
std::string Padding() { return std::string(2'048, 'p'); }

std::string CsvRow(int n) {
  if (n % 11 == 0) return n % 2 == 0 ? "bad\n" : "1,\"open,a\n";
  return absl::StrCat(n % 2, ",", n, n % 3 == 0 ? ",\"x\ny\"\"" : ",\"x\"\"", n, "\",", Padding(),
                      n % 7 == 0 ? "\n\r\n" : "\n");
}

std::string NamedRow(int n) {
  if (n % 11 == 0) return "bad\n";
  return absl::StrCat("more\t", n, "\t", n, " b\t", n % 2, "\r\n");
}

std::string CriteoRow(int n) {
  if (n % 11 == 0) return "bad\n";
  std::string text = absl::StrCat(n % 2);
  for (int i = 0; i < 13; ++i) absl::StrAppend(&text, "\t", n + i);
  for (int i = 0; i < 26; ++i) absl::StrAppend(&text, "\t", n * 26 + i);
  return text + "\n";
}

std::string JsonRow(int n) {
  if (n % 11 == 0) return "{\"y\":\n";
  return absl::StrCat("{\"y\": ", n % 2, ", \"a\": [", n, ", \"n\\n\"], \"x\": ", n, ", \"p\": \"",
                      Padding(), "\"}\n");
}

std::string LibsvmRow(int n) {
  if (n % 11 == 0) return "1 bad\n";
  return absl::StrCat(n % 2 == 0 ? "-1" : "+1", " ", n, ":0.5 7:", n, "\n");
}

std::string LibffmRow(int n) {
  if (n % 11 == 0) return "1 0:1:2 9:1:2\n";
  return absl::StrCat(n % 2, " 0:", n, ":1 1:", n + 1, ":0.5\n");
}

DataConfig Columns(Format format) {
  DataConfig config;
  config.format = format;
  config.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense), Column("a", Kind::kId),
                    Column("p", Kind::kSkip)};
  return config;
}

DataConfig Pairs(Format format) {
  DataConfig config;
  config.format = format;
  config.libffm_fields = format == Format::kLibffm ? 2 : 0;
  config.columns = PairColumns(config);
  return config;
}

std::vector<Example> Examples() {
  std::vector<Example> examples = {
      {"csv", Columns(Format::kCsv), {Feature("a")}, "", CsvRow},
      {"csv, header", Columns(Format::kCsv), {Feature("a")}, "y,x,a,p\n", CsvRow},
      {"tsv, header found", Columns(Format::kCsv), {Feature("a")}, "o\tx\ta\ty\n", NamedRow},
      {"criteo", {}, {Feature("C1"), Feature("C26")}, "", CriteoRow},
      {"json", Columns(Format::kJson), {Feature("a")}, "", JsonRow},
      {"libsvm", Pairs(Format::kLibsvm), {Feature("features")}, "", LibsvmRow},
      {"libffm", Pairs(Format::kLibffm), {Feature("field0"), Feature("field1")}, "", LibffmRow}};
  examples[1].config.csv.header = true;
  examples[2].config.csv.finds_header = true;
  examples[2].config.csv.separator = '\t';
  examples[2].config.columns.pop_back();
  examples[3].config.format = Format::kCriteo;
  for (Example& example : examples) {
    example.config.on_bad_row = DataConfig::OnBadRow::kSkip;
    example.config.max_bad_share = 1;
  }
  return examples;
}

std::string Plain(std::string_view text) { return std::string(text); }

// Three gzip members, or zstd frames.
template <std::string (*compress)(std::string_view)>
std::string Parts(std::string_view text) {
  std::string parts;
  for (size_t part = 0; part < 3; ++part) {
    const size_t begin = text.size() * part / 3;
    parts += compress(text.substr(begin, text.size() * (part + 1) / 3 - begin));
  }
  return parts;
}

using Compress = std::string (*)(std::string_view);

struct Read {
  std::vector<std::string> batches;
  std::vector<ShareProgress> progress;  // By batch.
  std::vector<std::string> rows;        // That were parsed.
};

std::string TextOf(const Batch& batch) {
  std::string text;
  const auto add = [&text](const auto& values) {
    text += "|";
    for (const auto value : values) absl::StrAppend(&text, value, " ");
  };
  add(batch.dense.labels);
  add(batch.dense.values);
  add(batch.sparse->ids);
  add(batch.sparse->offsets);
  add(batch.sparse->occurrences);
  return text;
}

Read ReadShare(const Example& example, const std::vector<std::string>& files,
               const Division& division, uint32_t share, const DataPosition* position,
               uint32_t threads = 1) {
  Read read;
  const auto reader = OpenBatchReader(
      example.config, example.features, files, division.batch_size,
      {.share = share,
       .shares = division.shares,
       .piece_batches = division.piece_batches,
       .read = position,
       .on_row = [&read](std::string_view row, bool) { read.rows.emplace_back(row); },
       .threads = threads});
  REQUIRE(reader.status() == absl::OkStatus());
  for (;;) {
    const auto batch = (*reader)->Next();
    REQUIRE(batch.status() == absl::OkStatus());
    if (!batch->has_value()) return read;
    read.batches.push_back(TextOf(**batch));
    read.progress.push_back((*batch)->progress);
  }
}

// Overwrites what must not be read: the files before, and bytes of this one between its header, or
// the first bytes of its compression, and the place.
void Spoil(const std::vector<std::string>& files, const ReadPlace& place, size_t kept_bytes,
           const TemporaryFolder& folder, std::vector<std::string>& spoiled) {
  spoiled = files;
  for (size_t file = 0; file < files.size() && file <= place.file; ++file) {
    std::string text = ReadWholeFile(files[file]);
    const size_t end = file < place.file ? text.size() : place.at[3];
    for (size_t byte = kept_bytes; byte < end; ++byte) text[byte] = '"';
    spoiled[file] = folder.Write(absl::StrCat("spoiled-", file), text);
  }
}

TEST_CASE("Reading continues at every batch of every format", "[minutes]") {
  const Compress compress =
      GENERATE(values<Compress>({Plain, Gzip, Zstd, Parts<Gzip>, Parts<Zstd>}));
  const uint32_t shares = GENERATE(1U, 3U);
  const uint64_t window = GENERATE(0U, 40U);
  for (const Example& example : Examples()) {
    INFO(example.name);
    const TemporaryFolder folder;
    std::vector<std::string> files;
    int number = 1;
    for (const int rows : {60, 0, 100, 13}) {
      std::string text = example.header;
      for (int row = 0; row < rows; ++row) text += example.row(number++);
      if (rows == 100) text.pop_back();  // The last line has no end.
      files.push_back(folder.Write(absl::StrCat("file-", files.size()), compress(text)));
    }
    const Division division{.batch_size = kBatchSize, .piece_batches = 2, .shares = shares};
    const bool is_plain = compress == Compress(Plain);
    DataPosition start(division);
    start.SetWindow(window);
    for (uint32_t share = 0; share < shares; ++share) {
      const Read whole = ReadShare(example, files, division, share, &start);
      REQUIRE(whole.batches.size() > 100 / kBatchSize / shares);
      for (size_t batch = 0; batch < whole.batches.size(); ++batch) {
        INFO("share " << share << ", batch " << batch);
        DataPosition position = start;
        position.Advance(whole.progress[batch]);
        const auto restored = DataPosition::FromText(position.ToText());
        REQUIRE(restored.ok());
        std::vector<std::string> spoiled;
        if (is_plain || example.header.empty()) {  // Headers are read again.
          Spoil(files, whole.progress[batch].place, is_plain ? example.header.size() : 16, folder,
                spoiled);
        } else {
          spoiled = files;
        }
        const uint32_t threads = batch % 4 == 0 ? 3 : 1;
        const Read rest = ReadShare(example, spoiled, division, share, &*restored, threads);
        REQUIRE(std::ranges::equal(rest.batches, std::span(whole.batches).subspan(batch + 1)));
        REQUIRE(std::ranges::equal(rest.rows, std::span(whole.rows).last(rest.rows.size())));
        REQUIRE(std::ranges::equal(rest.progress, std::span(whole.progress).subspan(batch + 1), {},
                                   &ShareProgress::place, &ShareProgress::place));
        REQUIRE(rest.rows.size() < whole.rows.size());
        // Another division begins at the same place.
        const Division other{.batch_size = 7, .piece_batches = 1, .shares = 1};
        if (shares > 1 || batch % 8 > 0) continue;
        const DataPosition next = restored->ContinueWith(other);
        const Read others = ReadShare(example, spoiled, other, 0, &next);
        REQUIRE(std::ranges::equal(others.rows, rest.rows));
      }
    }
  }
}

TEST_CASE("Members and frames before the place are not decompressed") {
  const Compress compress = GENERATE(values<Compress>({Parts<Gzip>, Parts<Zstd>}));
  const Example example = Examples().front();
  const TemporaryFolder folder;
  std::string text;
  for (int row = 1; row <= 200; ++row) text += CsvRow(row);
  const std::vector<std::string> files = {folder.Write("file", compress(text))};
  const Division division{.batch_size = kBatchSize, .piece_batches = 1, .shares = 1};
  const Read whole = ReadShare(example, files, division, 0, nullptr);
  std::vector<uint64_t> starts;
  for (const ShareProgress& progress : whole.progress) {
    if (progress.place.file == 0) starts.push_back(progress.place.at[3]);
  }
  CHECK(std::ranges::is_sorted(starts));
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  CHECK(starts.size() >= 3);
  CHECK(starts.front() == 0);
}

TEST_CASE("A file without a row at the place is named") {
  Example example = Examples().front();
  example.config.on_bad_row = DataConfig::OnBadRow::kFail;
  const TemporaryFolder folder;
  const Division division{.batch_size = 1, .piece_batches = 1, .shares = 1};
  const std::vector<std::string> files = {folder.Write("file", "1,1,a,\n0,2,b,\n")};
  const Read whole = ReadShare(example, files, division, 0, nullptr);
  DataPosition position(division);
  position.Advance(whole.progress[0]);
  for (const char* text : {"1,1,aa,\n0,2,b,\n", "1,1,a,", ""}) {
    folder.Write("file", text);
    CHECK(OpenBatchReader(example.config, example.features, files, 1, {.read = &position})
              .status()
              .message() ==
          files[0] +
              ": no row begins at byte 7 of its text, where the reading is to continue; restore "
              "the file that was read");
  }
}

}  // namespace
}  // namespace simurgh
