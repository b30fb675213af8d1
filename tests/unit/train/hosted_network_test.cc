// The exchange of tasks between a trainer and a program that has the network.

#include "train/hosted_network.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "data/batch/batch_builder.h"
#include "embedding/batch_plan.h"
#include "tests/unit/collective/rank_threads.h"

namespace simurgh::testing {
namespace {

using Work = HostedNetwork::Work;
using Task = HostedNetwork::Task;

constexpr size_t kRows = 3;
constexpr size_t kWidth = 6;
constexpr size_t kDense = 2;
constexpr std::chrono::minutes kPatience{4};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ClusterConfig Config(const std::vector<std::string>& overrides = {}) {
  const std::string text = R"(
embedding_ps: {instances: [{address: "127.0.0.1:1"}]}
embedding_worker: {instances: [{address: "127.0.0.1:2"}]}
tables: [{name: a, dim: 4}, {name: b, dim: 2}]
features: [{name: a}, {name: b}]
data:
  train: [train.csv]
  columns:
    - {name: a, kind: id}
    - {name: b, kind: id}
    - {name: x, kind: dense, mean: 0, stddev: 1}
    - {name: y, kind: dense, mean: 0, stddev: 1}
    - {name: label, kind: label}
training: {batch_size: 3}
)";
  StatusOr<ClusterConfig> config =
      ParseClusterConfig(text, "hosted.yaml", overrides, InputFiles::kIgnore);
  CAPTURE(config.status().ToString());
  REQUIRE(config.ok());
  return *std::move(config);
}

// Embeddings and gradients that f16 and bf16 represent.
std::vector<float> Numbers(size_t count, float first) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = first + 0.25F * static_cast<float>(i);
  return numbers;
}

// A batch as the trainer has it.
struct TrainerBatch {
  explicit TrainerBatch(HostedNetwork& network, const EmbeddingWire& wire = {})
      : block(network.blocks().Lease(kRows, /*with_gradients=*/true)) {
    if (block->encoded_embeddings.precision == VectorPrecision::kF32) {
      std::ranges::copy(embeddings, block->embeddings.flat().begin());
    } else {
      VectorCodec(wire.embeddings, wire.dims)
          .Encode({embeddings.data(), kRows, kWidth}, 1, std::nullopt,
                  block->encoded_embeddings.bytes);
    }
  }

  StatusOr<BatchResult> Train(HostedNetwork& network, RankStep step = {},
                              const std::function<void()>& meanwhile = {}) {
    step.on_embedding_gradients = [this](bool usable) { pushed = usable; };
    return network.ForwardBackward(*block, {dense.data(), kRows, kDense}, labels, probabilities,
                                   step, meanwhile);
  }

  std::vector<float> embeddings = Numbers(kRows * kWidth, -2);
  std::vector<float> dense = Numbers(kRows * kDense, 5);
  std::vector<float> labels = {1, 0, kNan};
  std::vector<float> probabilities = std::vector<float>(kRows);
  std::optional<bool> pushed;
  std::shared_ptr<BatchBlock> block;
};

// Runs a call of the trainer on a thread of its own.
template <typename Call>
auto OnTrainer(Call call) {
  return std::async(std::launch::async, std::move(call));
}

// Waits for a task of the program.
Task NextTask(HostedNetwork& network, Work work) {
  StatusOr<std::optional<Task>> task = network.Next(kPatience);
  CAPTURE(task.status().ToString());
  REQUIRE(task.ok());
  REQUIRE(task->has_value());
  CHECK((*task)->work == work);
  return **std::move(task);
}

const std::vector<float> kOutputs = {0.5F, -1, 2};

TEST_CASE("A program trains, predicts, saves and restores for the trainer") {
  HostedNetwork network(Config());
  CHECK(!network.Next(std::chrono::milliseconds(0))->has_value());
  TrainerBatch batch(network);

  auto trained = OnTrainer([&] { return batch.Train(network, {.step = 7}); });
  Task task = NextTask(network, Work::kTrain);
  CHECK(task.step == 7);
  CHECK(task.rows == kRows);
  CHECK(std::ranges::equal(task.embeddings.flat(), batch.embeddings));
  CHECK(std::ranges::equal(task.dense.flat(), batch.dense));
  REQUIRE(task.labels.size() == kRows);
  CHECK(std::ranges::equal(task.labels.first(2), std::span(batch.labels).first(2)));
  CHECK(std::isnan(task.labels[2]));
  CHECK(task.weights.empty());
  const std::vector<float> gradients = Numbers(kRows * kWidth, 1);
  REQUIRE(network.Finish(gradients, kOutputs, /*usable=*/true).ok());
  const StatusOr<BatchResult> result = trained.get();
  REQUIRE(result.ok());
  CHECK(result->finite);
  // The third label is unknown.
  const double loss = (std::log1p(std::exp(-0.5)) + std::log1p(std::exp(-1.0))) / 3;
  CHECK(result->loss == Approx(loss).epsilon(1e-12));
  CHECK(batch.probabilities[0] == Approx(1 / (1 + std::exp(-0.5))));
  CHECK(batch.probabilities[1] == Approx(1 / (1 + std::exp(1.0))));
  CHECK(std::ranges::equal(batch.block->gradients.flat(), gradients));
  CHECK(batch.pushed == true);

  std::vector<float> outputs(kRows);
  auto predicted = OnTrainer(
      [&] { return network.Predict(*batch.block, {batch.dense.data(), kRows, kDense}, outputs); });
  task = NextTask(network, Work::kPredict);
  CHECK(task.labels.empty());
  CHECK(std::ranges::equal(task.embeddings.flat(), batch.embeddings));
  REQUIRE(network.Predicted(kOutputs).ok());
  REQUIRE(predicted.get().ok());
  CHECK(outputs == kOutputs);

  auto saved = OnTrainer([&] { return network.Save(); });
  NextTask(network, Work::kSave);
  ProgramState state{.name = "net", .text = "{}", .tensors = {}};
  state.tensors.push_back({{"w", DType::kF32, {2}}, std::vector<std::byte>(8, std::byte{5})});
  REQUIRE(network.Saved(state).ok());
  const StatusOr<ProgramState> copy = saved.get();
  REQUIRE(copy.ok());
  CHECK(copy->name == "net");
  CHECK(copy->tensors.at(0).bytes == state.tensors[0].bytes);

  auto restored = OnTrainer([&] { return network.RestoreProgram(*copy); });
  task = NextTask(network, Work::kRestore);
  CHECK(task.state == &*copy);
  REQUIRE(network.Restored().ok());
  CHECK(restored.get().ok());

  network.End();
  NextTask(network, Work::kEnd);
  NextTask(network, Work::kEnd);
}

TEST_CASE("Each task has one answer, of its kind and size") {
  HostedNetwork network(Config());
  const std::vector<float> gradients(kRows * kWidth);
  const auto is_early = [](const Status& status) { return absl::IsFailedPrecondition(status); };
  CHECK(is_early(network.Finish(gradients, kOutputs, true)));
  CHECK(is_early(network.Predicted(kOutputs)));
  CHECK(is_early(network.Saved({})));
  CHECK(is_early(network.Restored()));
  std::vector<float> number = {1};
  CHECK(is_early(network.Sum(number)));
  CHECK(is_early(network.Agree(true).status()));

  TrainerBatch batch(network);
  auto trained = OnTrainer([&] { return batch.Train(network); });
  const Task task = NextTask(network, Work::kTrain);
  const Status unanswered = network.Next(kPatience).status();
  CHECK(is_early(unanswered));
  CHECK(std::string(unanswered.message()).find("a batch to train on, has no answer") !=
        std::string::npos);
  CHECK(is_early(network.Predicted(kOutputs)));
  CHECK(is_early(network.Saved({})));
  CHECK(is_early(network.Restored()));
  const std::span<const float> all(gradients);
  const Status width = network.Finish(all.first(kRows * kWidth - 1), kOutputs, true);
  CHECK(width.message() == "gradients: 17 numbers, expected (3, 6), as the embeddings");
  CHECK(absl::IsInvalidArgument(width));
  const Status rows = network.Finish(all, std::span(kOutputs).first(2), true);
  CHECK(rows.message() == "outputs: 2 numbers, expected (3, 1): one for each sample and label");
  CHECK(absl::IsInvalidArgument(rows));
  CHECK(trained.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  REQUIRE(network.Finish(all, kOutputs, true).ok());
  CHECK(is_early(network.Finish(all, kOutputs, true)));
  CHECK(trained.get().ok());
}

TEST_CASE("Steps that are not finite, or that the program leaves out, are not applied") {
  HostedNetwork network(Config());
  TrainerBatch batch(network);
  struct Case {
    float gradient;
    float output;
    bool usable;
    bool pushed;
    bool finite;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto tested =
      GENERATE(Case{1, 1, true, true, true}, Case{1, 1, false, true, false},
               Case{kNan, 1, true, false, false}, Case{-kInfinity, 1, true, false, false},
               Case{1, kNan, true, false, false}, Case{1, kInfinity, true, false, false});
  CAPTURE(tested.gradient, tested.output, tested.usable);
  batch.labels = {0, 0, 0};
  auto trained = OnTrainer([&] { return batch.Train(network); });
  NextTask(network, Work::kTrain);
  std::vector<float> gradients(kRows * kWidth);
  gradients.back() = tested.gradient;
  REQUIRE(network.Finish(gradients, std::vector<float>{0, 0, tested.output}, tested.usable).ok());
  const StatusOr<BatchResult> result = trained.get();
  REQUIRE(result.ok());
  CHECK(result->finite == tested.finite);
  CHECK(batch.pushed == tested.pushed);
}

TEST_CASE("Embeddings and gradients are converted by the wire's precision") {
  const std::string precision = GENERATE("f32", "bf16", "f16", "int8");
  const uint32_t ranks = GENERATE(1U, 4U);
  CAPTURE(precision, ranks);
  const ClusterConfig config = Config(
      {"training.embedding_precision=" + precision, "training.gradient_precision=" + precision});
  const EmbeddingWire wire = WireOf(config);
  HostedNetwork network(config);
  TrainerBatch batch(network, wire);
  REQUIRE(batch.block->encoded_embeddings.precision == wire.embeddings);
  const RoundingKey key{.seed = wire.seed, .step = 9, .first_row = FirstRowOf(2)};
  batch.block->rounding = key;

  auto trained = OnTrainer([&] { return batch.Train(network, {.step = 9, .ranks = ranks}); });
  const Task task = NextTask(network, Work::kTrain);
  const float most = precision == "int8" ? 0.02F : 0;
  for (size_t i = 0; i < batch.embeddings.size(); ++i) {
    CHECK(std::abs(task.embeddings.flat()[i] - batch.embeddings[i]) <= most);
  }
  const std::vector<float> gradients = Numbers(kRows * kWidth, -1.5F);
  REQUIRE(network.Finish(gradients, kOutputs, true).ok());
  REQUIRE(trained.get().ok());

  const VectorCodec codec(wire.gradients, wire.dims);
  std::vector<std::byte> expected(kRows * codec.row_bytes());
  codec.Encode({gradients.data(), kRows, kWidth}, wire.gradient_factor / static_cast<float>(ranks),
               key, expected);
  CHECK(std::ranges::equal(batch.block->encoded_gradients.bytes, expected));
}

TEST_CASE("A program's gradients become those of rows, divided by the ranks") {
  const uint32_t ranks = GENERATE(1U, 4U);
  const ClusterConfig config = Config();
  const EmbeddingWire wire = WireOf(config);
  HostedNetwork network(config);
  // Both features have one id in all samples, so its gradient is the sum of a column.
  BatchBuilder builder(2, 0);
  for (size_t row = 0; row < kRows; ++row) {
    builder.AddId(0, 7);
    builder.AddId(1, 8);
    builder.EndSample();
  }
  TrainerBatch batch(network, wire);
  batch.block = network.blocks().LeaseFor(builder.Build()->sparse, /*with_gradients=*/true);
  REQUIRE(batch.block->encoded_gradients.form == EmbeddingForm::kRows);
  const std::vector<float> rows = Numbers(kWidth, -2);
  std::ranges::copy(std::as_bytes(std::span(rows)), batch.block->encoded_embeddings.bytes.begin());
  auto trained = OnTrainer([&] { return batch.Train(network, {.step = 9, .ranks = ranks}); });
  const Task task = NextTask(network, Work::kTrain);
  for (size_t row = 0; row < kRows; ++row)
    CHECK(std::ranges::equal(task.embeddings.row(row), rows));
  const std::vector<float> gradients = Numbers(kRows * kWidth, -1.5F);
  REQUIRE(network.Finish(gradients, kOutputs, true).ok());
  REQUIRE(trained.get()->finite);
  std::vector<float> expected(kWidth);
  for (size_t i = 0; i < gradients.size(); ++i) {
    expected[i % kWidth] += gradients[i] / static_cast<float>(ranks);
  }
  CHECK(
      std::ranges::equal(batch.block->encoded_gradients.bytes, std::as_bytes(std::span(expected))));
}

TEST_CASE("The next batch is prepared while the program computes") {
  HostedNetwork network(Config());
  TrainerBatch first(network);
  TrainerBatch second(network);
  std::ranges::fill(second.block->embeddings.flat(), 0.5F);
  const MatrixView<const float> dense(second.dense.data(), kRows, kDense);
  const auto load = [&] { network.Load(*second.block, dense, second.labels); };
  auto trained = OnTrainer([&] { return first.Train(network, {}, load); });
  const Task task = NextTask(network, Work::kTrain);
  CHECK(task.embeddings.row(0)[0] == first.embeddings[0]);
  REQUIRE(network.Finish(Numbers(kRows * kWidth, 0), kOutputs, true).ok());
  REQUIRE(trained.get().ok());
  // A prediction in between does not take its place.
  std::vector<float> outputs(kRows);
  auto predicted = OnTrainer([&] { return network.Predict(*first.block, dense, outputs); });
  CHECK(NextTask(network, Work::kPredict).embeddings.row(0)[0] == first.embeddings[0]);
  REQUIRE(network.Predicted(kOutputs).ok());
  REQUIRE(predicted.get().ok());
  // The arrays are from before this change.
  std::ranges::fill(second.block->embeddings.flat(), 0.25F);
  second.dense.assign(second.dense.size(), -9);
  for (const uint64_t step : {4, 5}) {
    trained = OnTrainer([&] { return second.Train(network, {.step = step}); });
    const Task next = NextTask(network, Work::kTrain);
    CHECK(next.step == step);
    CHECK(next.rows == kRows);
    CHECK(next.dense.row(1)[1] == (step == 4 ? first.dense[kDense + 1] : -9));
    CHECK(next.labels.size() == kRows);
    REQUIRE(network.Finish(Numbers(kRows * kWidth, 0), kOutputs, true).ok());
    REQUIRE(trained.get().ok());
  }
}

TEST_CASE("A batch that is loaded and left out does not take the place of another") {
  HostedNetwork network(Config());
  {
    TrainerBatch left(network);
    std::ranges::fill(left.block->embeddings.flat(), 0.5F);
    network.Load(*left.block, {left.dense.data(), kRows, kDense}, left.labels);
  }
  for (int i = 0; i < 3; ++i) {  // The memory of the batch that was left out is not used again.
    TrainerBatch next(network);
    CHECK(next.block->embeddings.flat()[0] == next.embeddings[0]);
    auto trained = OnTrainer([&] { return next.Train(network); });
    CHECK(std::ranges::equal(NextTask(network, Work::kTrain).embeddings.flat(), next.embeddings));
    REQUIRE(network.Finish(Numbers(kRows * kWidth, 0), kOutputs, true).ok());
    REQUIRE(trained.get().ok());
  }
}

TEST_CASE("The arrays of a task outlive the trainer's batch and the network") {
  std::optional<Task> task;
  std::vector<float> expected;
  {
    HostedNetwork network(Config());
    {
      TrainerBatch batch(network);
      expected = batch.embeddings;
      auto trained = OnTrainer([&] { return batch.Train(network); });
      task = NextTask(network, Work::kTrain);
      REQUIRE(network.Finish(Numbers(kRows * kWidth, 0), kOutputs, true).ok());
      REQUIRE(trained.get().ok());
    }
    // The next block has other memory.
    const auto next = network.blocks().Lease(kRows, true);
    std::ranges::fill(next->embeddings.flat(), 99.0F);
    CHECK(std::ranges::equal(task->embeddings.flat(), expected));
  }
  CHECK(std::ranges::equal(task->embeddings.flat(), expected));
  CHECK(task->dense.flat()[0] == 5);
  CHECK(task->labels[0] == 1);
}

TEST_CASE("A failure ends the calls of both sides") {
  HostedNetwork network(Config());
  TrainerBatch batch(network);
  const Status reason = absl::AbortedError("the reason");

  SECTION("the trainer waits for an answer") {
    auto trained = OnTrainer([&] { return batch.Train(network); });
    NextTask(network, Work::kTrain);
    network.Fail(reason);
    CHECK(trained.get().status() == reason);
    CHECK(network.Finish(Numbers(kRows * kWidth, 0), kOutputs, true) == reason);
  }
  SECTION("the trainer waits for the program") {
    auto trained = OnTrainer([&] { return batch.Train(network); });
    network.Fail(reason);
    CHECK(trained.get().status() == reason);
  }
  SECTION("the trainer loads the next batch") {
    TrainerBatch next(network);
    const auto load = [&] {
      network.Load(*next.block, {next.dense.data(), kRows, kDense}, next.labels);
      network.Fail(reason);
    };
    CHECK(batch.Train(network, {}, load).status() == reason);
  }
  SECTION("the trainer loads the next batch after the answer") {
    auto trained = OnTrainer([&] {
      return batch.Train(network, {}, [&] {
        NextTask(network, Work::kTrain);
        CHECK(network.Finish(Numbers(kRows * kWidth, 0), kOutputs, true).ok());
        network.Fail(reason);
      });
    });
    CHECK(trained.get().status() == reason);
  }
  SECTION("the program waits for a task") {
    auto next = OnTrainer([&] { return network.Next(kPatience).status(); });
    network.Fail(reason);
    CHECK(next.get() == reason);
  }
  network.Fail(absl::InternalError("a later one"));
  CHECK(network.Next(kPatience).status() == reason);
  CHECK(batch.Train(network).status() == reason);
  CHECK(network.Save().status() == reason);
  CHECK(network.RestoreProgram({}) == reason);
  CHECK(!batch.pushed);
}

TEST_CASE("The end of training ends a program's wait") {
  HostedNetwork network(Config());
  auto next = OnTrainer([&] { return network.Next(kPatience); });
  network.End();
  const auto task = next.get();
  REQUIRE(task.ok());
  CHECK((*task)->work == Work::kEnd);
}

TEST_CASE("A failure at any moment of an exchange is safe") {
  for (int i = 0; i < 20; ++i) {
    HostedNetwork network(Config());
    TrainerBatch batch(network);
    auto trained = OnTrainer([&] {
      Status status;
      while (status.ok()) status = batch.Train(network).status();
      return status;
    });
    auto program = OnTrainer([&] {
      const std::vector<float> gradients = Numbers(kRows * kWidth, 0);
      while (true) {
        const auto task = network.Next(kPatience);
        if (!task.ok()) return task.status();
        if (Status status = network.Finish(gradients, kOutputs, true); !status.ok()) return status;
      }
    });
    // Both are at work when the failure comes.
    for (int yields = 0; yields < i; ++yields) std::this_thread::yield();
    network.Fail(absl::AbortedError("the reason"));
    CHECK(absl::IsAborted(trained.get()));
    CHECK(absl::IsAborted(program.get()));
  }
}

TEST_CASE("Sums and agreements are over the ranks") {
  const ClusterConfig config = Config();
  const auto statuses = RunRanks(
      3, RankBody([&](std::unique_ptr<Collective>& collective) {
        HostedNetwork network(config);
        network.Join(*collective);
        TrainerBatch batch(network);
        auto trained = OnTrainer([&] { return batch.Train(network); });
        const auto task = network.Next(kPatience);
        SIMURGH_RETURN_IF_ERROR(task.status());
        const auto rank = static_cast<float>(collective->rank());
        std::vector<float> numbers = {rank, 0.5F, 10 * rank};
        SIMURGH_RETURN_IF_ERROR(network.Sum(numbers));
        SIMURGH_ASSIGN_OR_RETURN(const bool all, network.Agree(true));
        SIMURGH_ASSIGN_OR_RETURN(const bool some, network.Agree(collective->rank() != 1));
        SIMURGH_RETURN_IF_ERROR(network.Finish(Numbers(kRows * kWidth, 0), kOutputs, true));
        SIMURGH_RETURN_IF_ERROR(trained.get().status());
        const bool right = numbers == std::vector<float>{3, 1.5F, 30} && all && !some;
        return right ? absl::OkStatus() : absl::InternalError("wrong sums");
      }));
  for (const Status& status : statuses) CHECK(status == absl::OkStatus());
}

}  // namespace
}  // namespace simurgh::testing
