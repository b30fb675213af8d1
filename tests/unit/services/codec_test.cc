#include <cstring>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "services/api/batch_rpc.h"
#include "services/api/row_rpc.h"

namespace simurgh::api {
namespace {

const RowShape& Shape() {
  static const RowShape shape{.dims = {8, 4, 4, 8, 15, 8}, .partitions = 2};
  return shape;
}

PushRowsCall SomePush(std::span<const RowGroup> groups, std::span<const float> rates) {
  return {.step_id = {.run = 5, .rank = 1, .step = 77}, .groups = groups, .learning_rates = rates};
}

// The metadata of a message.
template <typename Message>
std::span<const std::byte> Metadata(const rpc::Outgoing<Message>& message) {
  return message.message().metadata.bytes;
}

// The decoded metadata.
StatusOr<ParsedRows> ReadPull(std::span<const std::byte> metadata) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* table,
                           rpc::VerifiedTable<wire::PullRowsRequest>("pull", metadata));
  SIMURGH_RETURN_IF_ERROR(DecodeLookupMode("pull", table->mode()).status());
  return ParsedRows::Parse(*table->groups(), Shape());
}
StatusOr<ParsedRows> ReadPush(std::span<const std::byte> metadata) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* table,
                           rpc::VerifiedTable<wire::PushRowsRequest>("push", metadata));
  return ParsedRows::Parse(*table->groups(), Shape());
}
StatusOr<PullBatchMessage> ReadPullBatch(std::span<const std::byte> metadata) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* table,
                           rpc::VerifiedTable<wire::PullBatchRequest>("pull batch", metadata));
  return Decode(*table);
}
StatusOr<PushBatchMessage> ReadPushBatch(std::span<const std::byte> metadata) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* table,
                           rpc::VerifiedTable<wire::PushBatchRequest>("push batch", metadata));
  return Decode(*table);
}

TEST_CASE("Row requests round-trip") {
  const std::vector<RowGroup> groups{{3, 8, {2, 1}}, {4, 15, {0, 5}, RowPrecision::kBf16}};
  const std::vector<float> rates{0.5F, 0.25F};
  const auto encoded = Encode(SomePush(groups, rates), /*map_version=*/9);
  const auto push = rpc::VerifiedTable<wire::PushRowsRequest>("push", Metadata(encoded));
  REQUIRE(push.ok());
  const StepId step_id = Decode(*(*push)->step_id());
  CHECK(step_id.run == 5);
  CHECK(step_id.rank == 1);
  CHECK(step_id.step == 77);
  CHECK((*push)->map_version() == 9);
  const auto decoded = ParsedRows::Parse(*(*push)->groups(), Shape());
  REQUIRE(decoded.ok());
  const size_t second = 3 * 8 * sizeof(float);
  CHECK(decoded->runs() ==
        std::vector<RowRun>{{0, 3, 8, RowPrecision::kF32, 0.5F, 0, 2, 0},
                            {1, 3, 8, RowPrecision::kF32, 0.5F, 2, 1, 2 * 8 * sizeof(float)},
                            {1, 4, 15, RowPrecision::kBf16, 0.25F, 3, 5, second}});
  CHECK(decoded->payload().ids == 8);
  CHECK(decoded->payload().bytes == second + 5 * 15 * 2 + 2);  // 2 to a multiple of 4.
  CHECK(PayloadOf(groups).ids == 8);
  CHECK(PayloadOf(groups).bytes == decoded->payload().bytes);
  CHECK(ParsedRows::Parse(groups, rates, Shape()).value().runs() == decoded->runs());

  const PullRowsCall call{.mode = LookupMode::kEvaluate,
                          .step_id = {.run = 5, .rank = 1, .step = 77},
                          .needed = {.acknowledged_steps = 70, .awaited_steps = 71},
                          .groups = groups};
  const auto request = Encode(call, 9);
  const auto pull = rpc::VerifiedTable<wire::PullRowsRequest>("pull", Metadata(request));
  REQUIRE(pull.ok());
  CHECK(DecodeLookupMode("pull", (*pull)->mode()).value() == LookupMode::kEvaluate);
  CHECK(DecodeLookupMode("pull rows", 7).status().message() ==
        "pull rows: mode: 7 is unknown; use 0 or 1");
  CHECK((*pull)->acknowledged_steps() == 70);
  CHECK((*pull)->awaited_steps() == 71);
  CHECK((*pull)->groups()->size() == 2);
}

TEST_CASE("Pull and push reports round-trip") {
  const rpc::Outgoing<PullRows::Response> pulled = Encode(PullReport{.found = 1,
                                                                     .created = 2,
                                                                     .unseen = 3,
                                                                     .rejected_admission = 4,
                                                                     .rejected_full = 6,
                                                                     .evicted = 5,
                                                                     .evicted_for_space = 7},
                                                          {});
  const auto pull = rpc::VerifiedTable<wire::PullRowsResponse>("pull", Metadata(pulled));
  REQUIRE(pull.ok());
  const PullReport pull_report = Decode(**pull);
  CHECK(pull_report.found == 1);
  CHECK(pull_report.created == 2);
  CHECK(pull_report.unseen == 3);
  CHECK(pull_report.rejected_admission == 4);
  CHECK(pull_report.rejected_full == 6);
  CHECK(pull_report.evicted == 5);
  CHECK(pull_report.evicted_for_space == 7);

  const rpc::Outgoing<PushRows::Response> pushed =
      Encode(PushReport{.repeated = true, .updated = 6, .missing = 7});
  const auto push = rpc::VerifiedTable<wire::PushRowsResponse>("push", Metadata(pushed));
  REQUIRE(push.ok());
  const PushReport push_report = Decode(**push);
  CHECK(push_report.repeated);
  CHECK(push_report.updated == 6);
  CHECK(push_report.missing == 7);
}

TEST_CASE("Invalid row requests are rejected with the reason") {
  const auto refusal = [](std::vector<RowGroup> groups) {
    const std::vector<float> rates(groups.size());
    return std::string(ReadPush(Metadata(Encode(SomePush(groups, rates), 1))).status().message());
  };
  CHECK_THAT(refusal({{0, 0, {1, 1}}}), Catch::Contains("table 0 has dim 8, the request has 0"));
  CHECK_THAT(refusal({{6, 8, {1, 1}}}), Catch::Contains("table 6 is out of range, there are 6"));
  CHECK_THAT(refusal({{0, 8, {1}}}), Catch::Contains("by 1 partitions, this server has 2") &&
                                         Catch::Contains("embedding_ps.partitions"));
  CHECK_THAT(refusal({{5, 8, {1, 1}}, {5, 8, {1, 1}}}), Catch::Contains("table 5 follows table 5"));
  CHECK_THAT(refusal({{5, 8, {1, 1}}, {3, 8, {1, 1}}}), Catch::Contains("table 3 follows table 5"));
  CHECK_THAT(refusal({{0, 8, {1, 1}, static_cast<RowPrecision>(3)}}),
             Catch::Contains("table 0: precision 3 is unknown"));
  CHECK_THAT(refusal({{0, 8, {0xFFFFFFFF, 0xFFFFFFFF}}}),
             Catch::Contains("more than 10000000 ids"));
}

TEST_CASE("Batch requests round-trip, with the precision and scale of their vectors") {
  const auto pull = ReadPullBatch(
      Metadata(Encode({.options = {.mode = LookupMode::kEvaluate,
                                   .step_id = {.run = 5, .rank = 1, .step = 77},
                                   .needed = {.acknowledged_steps = 70, .awaited_steps = 71},
                                   .row_age_steps = 3},
                       .precision = VectorPrecision::kInt8})));
  REQUIRE(pull.ok());
  CHECK(pull->options.mode == LookupMode::kEvaluate);
  CHECK(pull->options.step_id.step == 77);
  CHECK(pull->options.needed.acknowledged_steps == 70);
  CHECK(pull->options.needed.awaited_steps == 71);
  CHECK(pull->options.row_age_steps == 3);
  CHECK(pull->precision == VectorPrecision::kInt8);
  PushBatchMessage message{
      .learning_rates = {0.5F, 0.25F}, .precision = VectorPrecision::kF16, .scale = 1024.0F};
  const auto push = ReadPushBatch(Metadata(Encode(message, {}, {})));
  REQUIRE(push.ok());
  CHECK(push->learning_rates == message.learning_rates);
  CHECK(push->precision == VectorPrecision::kF16);
  CHECK(push->scale == 1024.0F);

  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), 1e-40F}) {
    message.scale = bad;
    CHECK_THAT(std::string(ReadPushBatch(Metadata(Encode(message, {}, {}))).status().message()),
               Catch::Contains("scale"));
  }
  message = {.precision = static_cast<VectorPrecision>(4)};
  CHECK_THAT(std::string(ReadPushBatch(Metadata(Encode(message, {}, {}))).status().message()),
             Catch::Contains("precision: 4 is unknown; use 0 to 3"));
  CHECK_THAT(std::string(ReadPullBatch(Metadata(Encode(PullBatchMessage{
                                           .precision = static_cast<VectorPrecision>(4)})))
                             .status()
                             .message()),
             Catch::Contains("precision: 4 is unknown; use 0 to 3"));
  CHECK_THAT(
      std::string(
          ReadPullBatch(Metadata(Encode(PullBatchMessage{.form = static_cast<EmbeddingForm>(2)})))
              .status()
              .message()),
      Catch::Contains("form: 2 is unknown; use 0 or 1"));
  message = {.form = static_cast<EmbeddingForm>(2)};
  CHECK_THAT(std::string(ReadPushBatch(Metadata(Encode(message, {}, {}))).status().message()),
             Catch::Contains("push batch: form: 2 is unknown; use 0 or 1"));
  for (const auto& [precision, scale] :
       {std::pair(VectorPrecision::kBf16, 1.0F), std::pair(VectorPrecision::kF32, 2.0F)}) {
    message = {.precision = precision, .form = EmbeddingForm::kRows, .scale = scale};
    CHECK_THAT(std::string(ReadPushBatch(Metadata(Encode(message, {}, {}))).status().message()),
               Catch::Contains("gradients of rows are in f32, with scale 1"));
  }
  message = {.form = EmbeddingForm::kRows};
  CHECK(ReadPushBatch(Metadata(Encode(message, {}, {})))->form == EmbeddingForm::kRows);
}

TEST_CASE("Damaged metadata is rejected or read within bounds") {
  const uint64_t seed = 20260101;
  CAPTURE(seed);
  Random random(seed);
  const std::vector<RowGroup> groups{{3, 8, {2, 1}}, {4, 15, {0, 5}}};
  const std::vector<float> rates{0.5F, 0.25F};
  const auto push = Encode(SomePush(groups, rates), 9);
  int refused = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::vector<std::byte> bytes(Metadata(push).begin(), Metadata(push).end());
    bytes.resize(random.Below(8) == 0 ? random.Below(bytes.size() + 1) : bytes.size());
    for (uint64_t flips = 1 + random.Below(4); flips > 0 && !bytes.empty(); --flips) {
      bytes[random.Below(bytes.size())] = static_cast<std::byte>(random.Below(256));
    }
    refused += ReadPush(bytes).ok() ? 0 : 1;
    refused += ReadPull(bytes).ok() ? 0 : 1;
    refused += ReadPullBatch(bytes).ok() ? 0 : 1;
  }
  CHECK(refused > 0);
}

TEST_CASE("A batch larger than the limits is rejected before its payload is read") {
  const auto owner = std::make_shared<EncodedBatch>();
  const auto placed = [&](uint64_t plain_ids, uint64_t codes) {
    return PlaceSubmit({plain_ids, codes}, *owner, owner).status();
  };
  CHECK(placed(0, 0).ok());
  CHECK(placed(10, 20).ok());
  CHECK(owner->plain_ids.size() == 10);
  CHECK(owner->codes.size() == 20);
  CHECK_THAT(std::string(placed(kMaxBatchOccurrences + 1, 0).message()),
             Catch::Contains("10000001 plain ids") && Catch::Contains("use at most 10000000"));
  CHECK_THAT(std::string(placed(0, kMaxBatchCodeBytes + 1).message()),
             Catch::Contains("bytes of codes"));
}

}  // namespace
}  // namespace simurgh::api
