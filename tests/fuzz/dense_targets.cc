// The messages between nn-workers and the servers of dense weights.

#include "base/check.h"
#include "services/api/dense_rpc.h"
#include "tests/fuzz/schema.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

void RunStartDense(Input input) {
  const Received<api::wire::StartDenseRequest> request(input);
  if (request.table == nullptr) return;
  const auto optimizer = api::Decode(*request.table->optimizer());
  if (IsRefusal(optimizer.status())) return;
  const StartDenseCall call{.run = request.table->run(), .optimizer = *optimizer};
  const Received<api::wire::StartDenseRequest> again(api::Encode(call));
  SIMURGH_CHECK_EQ(again.table->run(), call.run);
  const auto second = api::Decode(*again.table->optimizer());
  SIMURGH_CHECK(second.ok());
  SIMURGH_CHECK(second->kind == optimizer->kind && second->nesterov == optimizer->nesterov);
  SIMURGH_CHECK(SameFloat(second->momentum, optimizer->momentum));
  SIMURGH_CHECK(SameFloat(second->beta1, optimizer->beta1));
  SIMURGH_CHECK(SameFloat(second->beta2, optimizer->beta2));
  SIMURGH_CHECK(SameFloat(second->epsilon, optimizer->epsilon));
  SIMURGH_CHECK(SameFloat(second->initial_accumulator, optimizer->initial_accumulator));
  SIMURGH_CHECK(SameFloat(second->weight_decay, optimizer->weight_decay));
  SIMURGH_CHECK(SameFloat(second->decoupled_weight_decay, optimizer->decoupled_weight_decay));
}

void RunPullDense(Input input) {
  const Received<api::wire::PullDenseRequest> request(input);
  if (request.table == nullptr) return;
  const PullDenseCall call{.run = request.table->run()};
  const Received<api::wire::PullDenseRequest> again(api::Encode(call));
  SIMURGH_CHECK_EQ(again.table->run(), call.run);
  SIMURGH_CHECK_EQ(again.table->count(), 0U);
}

void RunPushDense(Input input) {
  const Received<api::wire::PushDenseRequest> request(input);
  if (request.table == nullptr) return;
  const PushDenseCall call{.run = request.table->run(),
                           .rank = request.table->rank(),
                           .number = request.table->number(),
                           .base_version = request.table->base_version(),
                           .learning_rate = request.table->learning_rate()};
  const Received<api::wire::PushDenseRequest> again(api::Encode(call));
  SIMURGH_CHECK_EQ(again.table->run(), call.run);
  SIMURGH_CHECK_EQ(again.table->rank(), call.rank);
  SIMURGH_CHECK_EQ(again.table->number(), call.number);
  SIMURGH_CHECK_EQ(again.table->base_version(), call.base_version);
  SIMURGH_CHECK(SameFloat(again.table->learning_rate(), call.learning_rate));
}

void RunDenseAnswer(Input input) {
  const Received<api::wire::DenseResponse> response(input);
  if (response.table == nullptr) return;
  const DenseAnswer answer = api::Decode(*response.table);
  const Received<api::wire::DenseResponse> again(api::EncodeStarted(answer));
  const DenseAnswer second = api::Decode(*again.table);
  SIMURGH_CHECK_EQ(second.version, answer.version);
  SIMURGH_CHECK_EQ(second.gap, answer.gap);
  SIMURGH_CHECK_EQ(second.repeated, answer.repeated);
}

std::vector<Bytes> StartDenseSeeds() {
  DenseOptimizerConfig adam{.kind = DenseOptimizerConfig::Kind::kAdam, .beta2 = 0.5F};
  return {MetadataOf(api::Encode(StartDenseCall{.run = 5})),
          MetadataOf(api::Encode(StartDenseCall{.run = 6, .optimizer = adam}))};
}

std::vector<Bytes> PullDenseSeeds() { return {MetadataOf(api::Encode(PullDenseCall{.run = 5}))}; }

std::vector<Bytes> PushDenseSeeds() {
  return {MetadataOf(api::Encode(
      PushDenseCall{.run = 5, .rank = 1, .number = 7, .base_version = 9, .learning_rate = 0.5F}))};
}

std::vector<Bytes> DenseAnswerSeeds() {
  return {MetadataOf(api::EncodeStarted({})),
          MetadataOf(api::EncodeStarted({.version = 9, .gap = 2, .repeated = true}))};
}

}  // namespace

std::vector<Target> DenseTargets() {
  return {{"start_dense", RunStartDense, StartDenseSeeds},
          {"pull_dense", RunPullDense, PullDenseSeeds},
          {"push_dense", RunPushDense, PushDenseSeeds},
          {"dense_answer", RunDenseAnswer, DenseAnswerSeeds}};
}

}  // namespace simurgh::fuzz
