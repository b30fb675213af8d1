// Rows of a stream that repeats records, has gaps and poison, and pauses.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/data/fake_stream.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

std::vector<Batch> ReadAll(BatchReader& reader) {
  std::vector<Batch> batches;
  while (true) {
    auto batch = reader.Next();
    REQUIRE(batch.ok());
    if (!batch->has_value()) return batches;
    batches.push_back(**std::move(batch));
  }
}

TEST_CASE("Records that are delivered again are left out, and batches know their offsets") {
  FakeStream stream({{"t/0", 5, "1,5"},
                     {"t/0", 6, "0,6"},
                     {"t/0", 5, "1,5"},
                     {"t/1", 2, "1,102"},
                     {"t/1", 9, "1,109"},
                     {"t/0", 6, "0,6"},
                     {"t/0", 7, "1,7"}});
  stream.offsets_ = {{"t/2", 40}};
  const auto reader = OpenStreamReader(LabelAndNumber(), {}, stream, {{"t/0", 5}, {"t/1", 3}}, 2);
  REQUIRE(reader.ok());
  const std::vector<Batch> batches = ReadAll(**reader);
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].dense.values == std::vector<float>{5, 6});
  CHECK(batches[0].progress.offsets == StreamOffsets{{"t/0", 7}, {"t/1", 3}, {"t/2", 40}});
  CHECK(batches[1].dense.values == std::vector<float>{109, 7});
  CHECK(batches[1].progress.offsets == StreamOffsets{{"t/0", 8}, {"t/1", 10}, {"t/2", 40}});
}

TEST_CASE("A pause gives an idle batch, and the rows wait for the next one") {
  FakeStream stream({{"t/0", 0, "1,0"}, {}, {}, {"t/0", 1, "0,1"}, {"t/0", 2, "0,2"}});
  const auto reader = OpenStreamReader(LabelAndNumber(), {}, stream, {}, 2);
  REQUIRE(reader.ok());
  const std::vector<Batch> batches = ReadAll(**reader);
  REQUIRE(batches.size() == 4);
  CHECK((batches[0].idle && batches[1].idle));
  CHECK(batches[0].progress.offsets.empty());  // A row waits.
  CHECK(batches[2].dense.values == std::vector<float>{0, 1});
  CHECK(batches[3].dense.values == std::vector<float>{2});
}

TEST_CASE("An idle batch has the offsets if no row waits") {
  FakeStream stream({{}, {"t/0", 4, "1,0"}, {"t/0", 5, "1,0"}, {}});
  stream.offsets_ = {{"t/0", 4}};
  const auto reader = OpenStreamReader(LabelAndNumber(), {}, stream, {}, 2);
  REQUIRE(reader.ok());
  for (const uint64_t next : {4, 6}) {
    const auto batch = (*reader)->Next();
    REQUIRE((batch.ok() && batch->has_value()));
    CHECK((*batch)->idle == (next == 4));
    CHECK((*batch)->progress.offsets == StreamOffsets{{"t/0", next}});
  }
}

TEST_CASE("Poison is skipped with its place, and a record without a value is no row") {
  FakeStream stream({{"t/0", 0, "1,0"},
                     {"t/0", 1, "poison"},
                     {"t/0", 2, std::nullopt},
                     {"t/0", 3, std::string(2'000'000, '1')},
                     {"t/0", 4, "1,4"}});
  const auto reader = OpenStreamReader(LabelAndNumber(), {}, stream, {}, 10);
  REQUIRE(reader.ok());
  const std::vector<Batch> batches = ReadAll(**reader);
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].dense.values == std::vector<float>{0, 4});
  CHECK(batches[0].progress.offsets == StreamOffsets{{"t/0", 5}});
  CHECK((*reader)->skipped_rows() == 2);

  FakeStream again(std::deque<FakeStream::Step>{{"t/0", 17, "poison"}});
  DataConfig strict = LabelAndNumber();
  strict.on_bad_row = DataConfig::OnBadRow::kFail;
  const auto failing = OpenStreamReader(strict, {}, again, {}, 10);
  REQUIRE(failing.ok());
  CHECK_THAT(std::string((*failing)->Next().status().message()),
             Catch::Contains("t/0 at offset 17"));
}

TEST_CASE("Positions with offsets read back, continue and merge") {
  DataPosition position({.batch_size = 4, .piece_batches = 1, .shares = 2});
  position.Advance({.share = 1, .next = {0, 8}, .offsets = {{"a.b/0", 4}, {"c-d/12", 9}}});
  position.Advance({.share = 0, .next = {0, 8}, .offsets = {{"a.b/1", 2}}});
  position.Merge({{"a.b/0", 7}, {"c-d/12", 3}});
  position.Merge({{"a.b/1", {2, 250}}});
  position.Merge({{"a.b/1", {2, 31}}});
  const StreamOffsets expected{{"a.b/0", 7}, {"a.b/1", {2, 250}}, {"c-d/12", 9}};
  CHECK(position.offsets() == expected);
  const auto read = DataPosition::FromText(position.ToText());
  REQUIRE(read.ok());
  CHECK(*read == position);
  CHECK(position.ContinueWith({.batch_size = 8, .piece_batches = 2, .shares = 3}).offsets() ==
        expected);
  CHECK(absl::IsDataLoss(DataPosition::FromText("files=0 turn=0\nstream=a/0:x").status()));
  CHECK(OffsetsText(expected) == "a.b/0:7,a.b/1:2:250,c-d/12:9");
  for (const char* text : {"a/0:1,a/0:2", "a/0", "a/0:1:x", "a/0:1:2:3"}) {
    CHECK(absl::IsDataLoss(OffsetsFromText(text).status()));
  }
}

}  // namespace
}  // namespace simurgh
