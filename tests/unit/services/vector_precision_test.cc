// Embeddings and gradients in every precision, from a trainer's client through an embedding worker.

#include <cmath>
#include <future>
#include <limits>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "embedding/row_codec.h"
#include "tests/unit/services/remote_worker.h"

namespace simurgh {
namespace {

using Precision = VectorPrecision;

ClusterConfig ClusterWith(Precision embeddings, Precision gradients) {
  ClusterConfig config = SmallCluster();
  config.training.embedding_precision = embeddings;
  config.training.gradient_precision = gradients;
  return config;
}

// Both directions of a batch.
class Remote : public RemoteWorker {
 public:
  using RemoteWorker::RemoteWorker;

  // The result of a training pull, and the servers' gradients after a push. The test encodes and
  // decodes as a network does.
  std::vector<float> Exchange(const std::vector<float>& gradients, StepId step_id = {}) {
    const EmbeddingWire wire = WireOf(config);
    const VectorCodec embedding_code(wire.embeddings, wire.dims);
    const VectorCodec gradient_code(wire.gradients, wire.dims);
    std::vector<std::byte> pulled(kSamples * embedding_code.row_bytes());
    std::vector<std::byte> encoded(kSamples * gradient_code.row_bytes());
    gradient_code.Encode(
        {gradients.data(), kSamples, kWidth}, wire.gradient_factor,
        RoundingKey{.seed = wire.seed, .step = step_id.step, .first_row = FirstRowOf(step_id.rank)},
        encoded);
    Exchange({wire.embeddings, pulled, nullptr},
             {wire.gradients, wire.gradient_factor, encoded, nullptr}, step_id);
    std::vector<float> matrix(kSamples * kWidth);
    embedding_code.Decode(pulled, 1.0F, {matrix.data(), kSamples, kWidth});
    return matrix;
  }

  // The same, with rows that the test pools. sums: it also sums the gradients of rows.
  std::vector<float> ExchangeRows(const std::vector<float>& gradients, bool sums = false) {
    const EmbeddingWire wire = WireOf(config);
    const RowCodec codec(wire.embeddings, wire.rows);
    std::vector<std::byte> encoded_rows(codec.bytes(*batch));
    EmbeddingBuffer target(wire.embeddings, encoded_rows, nullptr);
    target.form = EmbeddingForm::kRows;
    const auto at_once = [](size_t count, size_t, auto work) { work(0, count); };
    const MatrixView pooled(gradients.data(), kSamples, kWidth);
    std::vector<float> row_gradients(codec.floats(*batch));
    GradientBuffer pushed_gradients(pooled, nullptr);
    if (sums) {
      codec.Unpool(*batch, pooled, row_gradients, at_once);
      pushed_gradients = {Precision::kF32, 1, std::as_bytes(std::span(row_gradients)), nullptr};
      pushed_gradients.form = EmbeddingForm::kRows;
    }
    Exchange(target, pushed_gradients, {});
    std::vector<float> matrix(kSamples * kWidth);
    codec.Pool(*batch, encoded_rows, {matrix.data(), kSamples, kWidth}, at_once);
    return matrix;
  }

 private:
  void Exchange(const EmbeddingBuffer& embeddings, const GradientBuffer& gradients,
                StepId step_id) {
    const auto reference = Wait<StatusOr<BatchReference>>(
        [&](auto done) { client().Submit(batch, {}, std::move(done)); });
    REQUIRE(reference.ok());
    REQUIRE(Wait<StatusOr<PullAnswer>>([&](auto done) {
              client().Pull(*reference, {.step_id = step_id}, embeddings, std::move(done));
            }).status() == absl::OkStatus());
    pushed.clear();
    REQUIRE(Wait<Status>([&](auto done) {
              client().Push(*reference, step_id, gradients, std::move(done));
            }) == absl::OkStatus());
  }
};

// Answers every pull with responses of given sizes.
class LyingWorker {
 public:
  LyingWorker(size_t embeddings, size_t argmax) : embeddings_(embeddings), argmax_(argmax) {
    io.RunAndWait([this] {
      listener_ = std::make_unique<rpc::Server>(io.executor(), HelloOf("embedding-worker"),
                                                rpc::ServerOptions(), nullptr);
      rpc::Register(*listener_, api::kPullBatch, [this](auto request) { return Lie(request); });
      REQUIRE(listener_->Listen("127.0.0.1:0") == absl::OkStatus());
    });
  }
  ~LyingWorker() {
    io.RunAndWait([this] { listener_.reset(); });
  }

  std::unique_ptr<BatchClient> ClientOf(const ClusterConfig& config, const LearningRates& rates) {
    std::vector<std::unique_ptr<PeerClients>> workers;
    workers.push_back(std::make_unique<PeerClients>(
        io.executor(), listener_->address(), HelloOf("nn-worker"), rpc::ClientOptions(), nullptr));
    return std::make_unique<BatchClient>(io.executor(), std::move(workers), config, rates);
  }

  IoThread io{"test"};

 private:
  rpc::awaitable<StatusOr<rpc::Outgoing<api::PullBatch::Response>>> Lie(
      rpc::RequestOf<api::PullBatch::Request> /*request*/) {
    co_return api::Encode(PullAnswer{.argmax = {argmax_, nullptr}}, {embeddings_, nullptr});
  }

  const std::vector<std::byte> embeddings_;
  const std::vector<std::byte> argmax_;
  std::unique_ptr<rpc::Server> listener_;
};

std::vector<float> SmallGradients(uint64_t seed) {
  std::vector<float> gradients(kSamples * kWidth);
  Random random(seed);
  for (float& g : gradients) g = 1e-6F * static_cast<float>(random.Normal());
  return gradients;
}

// Relative to the largest number of a vector.
float ErrorOf(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return 0x1p-8F;
    case Precision::kF16:
      return 0x1p-11F;
    case Precision::kInt8:
      return 1.001F / 127;
    default:
      return 0;
  }
}

TEST_CASE("Pulled rows pool to the same bytes in f32") {
  ClusterConfig config = ClusterWith(Precision::kF32, Precision::kF32);
  config.tables[0].optimizer.learning_rate = 0.5F;
  config.tables[1].optimizer.learning_rate = 0.25F;
  config.features[1].pooling = Pooling::kMean;
  const std::vector<float> sent = SmallGradients(9);
  Remote pooled(config);
  config.training.embeddings = TrainingConfig::Embeddings::kRows;
  Remote rows(config);
  const std::vector<float> expected = pooled.Exchange(sent);
  CHECK(rows.ExchangeRows(sent) == expected);
  CHECK(rows.pushed == pooled.pushed);
}

TEST_CASE("Gradients of rows are the same bytes as those that the worker sums") {
  ClusterConfig config = ClusterWith(Precision::kF32, Precision::kF32);
  config.tables.push_back({.name = "last", .dim = 4});
  config.features[2].table_index = 2;  // Each list has a table of its own.
  for (TableConfig& table : config.tables) table.optimizer.learning_rate = 0.25F;
  config.tables[0].optimizer.learning_rate = 0.5F;
  config.features[1].pooling = Pooling::kMean;
  config.training.embeddings = TrainingConfig::Embeddings::kRows;
  std::vector<float> sent = SmallGradients(9);
  Remote pooled(config);
  Remote rows(config);
  REQUIRE(pooled.ExchangeRows(sent) == rows.ExchangeRows(sent, /*sums=*/true));
  REQUIRE(!rows.pushed.empty());
  CHECK(rows.pushed == pooled.pushed);

  // A sum that is not finite drops its feature only.
  const FeatureView feature = rows.batch->feature(1);
  size_t sample = 0;
  while (feature.sample(sample).empty()) ++sample;
  sent[sample * kWidth + 4] = std::numeric_limits<float>::infinity();
  rows.ExchangeRows(sent, /*sums=*/true);
  pooled.ExchangeRows(sent);
  CHECK(rows.pushed == pooled.pushed);
  for (const auto& [key, gradient] : rows.pushed) {
    for (const float number : gradient) CHECK(std::isfinite(number));
  }
}

TEST_CASE("Gradients of rows of another size are refused") {
  Remote remote(ClusterWith(Precision::kF32, Precision::kF32));
  const BatchReference reference = remote.Submit();
  const std::vector<float> numbers(3);
  GradientBuffer gradients(Precision::kF32, 1, std::as_bytes(std::span(numbers)), nullptr);
  gradients.form = EmbeddingForm::kRows;
  const Status refused = Wait<Status>(
      [&](auto done) { remote.client().Push(reference, {}, gradients, std::move(done)); });
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("12 bytes of vectors were given"));
}

TEST_CASE("Gradients of rows of a feature that is pooled by max need no argmax") {
  ClusterConfig config = ClusterWith(Precision::kF32, Precision::kF32);
  config.tables[0].optimizer.learning_rate = 0.5F;
  config.tables[1].optimizer.learning_rate = 0.25F;
  config.features[1].pooling = Pooling::kMax;
  Remote remote(config);
  const BatchReference reference = remote.Submit();
  const std::vector<float> numbers(
      RowCodec(Precision::kF32, LayoutOf(config).rows()).floats(*remote.batch));
  const std::vector<std::byte> unread(7, std::byte{0xff});
  GradientBuffer gradients(Precision::kF32, 1, std::as_bytes(std::span(numbers)), nullptr);
  gradients.form = EmbeddingForm::kRows;
  gradients.argmax.bytes = unread;
  CHECK(Wait<Status>([&](auto done) {
          remote.client().Push(reference, {}, gradients, std::move(done));
        }) == absl::OkStatus());
}

TEST_CASE("Each direction uses its precision, within its error bound") {
  const auto embeddings =
      GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16, Precision::kInt8);
  const auto gradients =
      GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16, Precision::kInt8);
  CAPTURE(static_cast<int>(embeddings), static_cast<int>(gradients));
  const std::vector<float> sent = SmallGradients(9);
  WorkerFixture exact;
  const BatchReference reference = exact.Submit();
  REQUIRE(exact.Pull(reference).ok());
  REQUIRE(exact.Push(reference, sent).ok());

  ClusterConfig config = ClusterWith(embeddings, gradients);
  config.tables[0].optimizer.learning_rate = 0.5F;
  config.tables[1].optimizer.learning_rate = 0.25F;
  Remote remote(config);
  const std::vector<float> matrix = remote.Exchange(sent);
  for (size_t i = 0; i < matrix.size(); ++i) {
    // Numbers of a vector are within a hundredth of a percent of one another, or zero.
    REQUIRE(std::abs(matrix[i] - exact.out[i]) <= ErrorOf(embeddings) * 1.01F * exact.out[i]);
  }
  REQUIRE(remote.pushed.size() == exact.pushed.size());
  for (const auto& [key, gradient] : exact.pushed) {
    for (size_t d = 0; d < gradient.size(); ++d) {
      // A row sums at most 40 gradients below 5e-6.
      REQUIRE(std::abs(remote.pushed.at(key)[d] - gradient[d]) <= 40 * 5e-6F * ErrorOf(gradients));
    }
  }
}

TEST_CASE("int8 gradients repeat for the same step and rank, and differ for others") {
  ClusterConfig config = ClusterWith(Precision::kF32, Precision::kInt8);
  config.tables[0].optimizer.learning_rate = 0.5F;
  config.tables[1].optimizer.learning_rate = 0.25F;
  Remote remote(config);
  const std::vector<float> sent = SmallGradients(10);
  const auto pushed_at = [&](StepId step_id) {
    remote.Exchange(sent, step_id);
    return remote.pushed;
  };
  const auto first = pushed_at({.run = 1, .rank = 0, .step = 5});
  CHECK(pushed_at({.run = 2, .rank = 0, .step = 5}) == first);
  CHECK(pushed_at({.run = 1, .rank = 0, .step = 6}) != first);
  CHECK(pushed_at({.run = 1, .rank = 1, .step = 5}) != first);
}

TEST_CASE("A feature that is not finite is dropped in every precision; others are applied") {
  const auto precision = GENERATE(Precision::kBf16, Precision::kF16, Precision::kInt8);
  const float bad =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  CAPTURE(static_cast<int>(precision), bad);
  ClusterConfig config = ClusterWith(Precision::kF32, precision);
  config.tables[0].optimizer.learning_rate = 0.5F;
  config.tables[1].optimizer.learning_rate = 0.25F;
  Remote remote(config);
  std::vector<float> gradients(kSamples * kWidth, 1.0F);
  gradients[(kSamples - 1) * kWidth + 5] = bad;  // Feature b, in the last sample.
  remote.Exchange(gradients);
  CHECK(remote.metrics.non_finite_gradients[0]->value() == 0);
  CHECK(remote.metrics.non_finite_gradients[1]->value() == 1);
  CHECK(remote.metrics.non_finite_gradients[2]->value() == 0);
  for (const auto& [key, gradient] : remote.pushed) {
    for (const float g : gradient) CHECK((key.first == 1 ? g == 0.0F : g >= 0.99F));
  }
}

TEST_CASE("training.gradient_scale keeps small gradients in f16") {
  const auto [precision, scale, factor] =
      GENERATE(table<Precision, float, float>({{Precision::kF16, 1.0F, 1.0F},
                                               {Precision::kF16, 65536.0F, 65536.0F},
                                               {Precision::kBf16, 65536.0F, 1.0F},
                                               {Precision::kF32, 65536.0F, 1.0F}}));
  CAPTURE(static_cast<int>(precision), scale);
  ClusterConfig config = ClusterWith(Precision::kF32, precision);
  config.training.gradient_scale = scale;
  config.tables[0].optimizer.learning_rate = 0.5F;
  config.tables[1].optimizer.learning_rate = 0.25F;
  CHECK(WireOf(config).gradient_factor == factor);
  Remote remote(config);
  // Below half of the smallest f16, 2^-24.
  remote.Exchange(std::vector<float>(kSamples * kWidth, 0x1p-26F));
  REQUIRE(!remote.pushed.empty());
  const bool is_lost = precision == Precision::kF16 && scale == 1.0F;
  for (const auto& [key, gradient] : remote.pushed) {
    for (const float g : gradient) CHECK((is_lost ? g == 0.0F : g >= 0x1p-26F));
  }
}

TEST_CASE("Gradients are divided by their scale") {
  WorkerFixture fixture;
  std::vector<float> gradients(kSamples * kWidth, 3.0F);
  REQUIRE(fixture.Push(fixture.Submit(), gradients).ok());
  const auto expected = std::exchange(fixture.pushed, {});
  for (float& g : gradients) g *= 4096;
  const GradientBuffer source(Precision::kF32, 4096.0F, std::as_bytes(std::span(gradients)),
                              nullptr);
  REQUIRE(fixture
              .Run(fixture.worker->Push(fixture.Submit(), {}, fixture.rates, source,
                                        rpc::Clock::time_point::max()))
              .ok());
  CHECK(fixture.pushed == expected);
}

TEST_CASE("The trainer rejects a pull's response with sizes that its batch cannot have") {
  struct Case {
    size_t embeddings;
    size_t argmax;
    std::string error;
  };
  constexpr size_t kRight = kSamples * kWidth * sizeof(float);
  constexpr size_t kMax = kSamples * 4 * 3;  // Positions of three bytes for each element.
  const auto [embeddings, argmax, error] =
      GENERATE(Case{kRight - 4, 0, "876 bytes of embeddings, expected 880"},
               Case{kRight, kMax + 1, "241 bytes of argmax, the batch has at most 240"},
               Case{kRight, kMax, ""});
  CAPTURE(embeddings, argmax);
  ClusterConfig config = SmallCluster();
  config.features[0].pooling = Pooling::kMax;
  LyingWorker lying(embeddings, argmax);
  IoThread& io = lying.io;
  const LearningRates rates(config.tables);
  std::unique_ptr<BatchClient> client;
  io.RunAndWait([&] { client = lying.ClientOf(config, rates); });
  std::vector<float> matrix(kSamples * kWidth);
  std::promise<StatusOr<PullAnswer>> answer;
  client->Pull({}, {}, {MatrixView(matrix.data(), kSamples, kWidth), nullptr},
               [&](StatusOr<PullAnswer> value) { answer.set_value(std::move(value)); });
  const Status status = answer.get_future().get().status();
  CHECK(status.ok() == error.empty());
  CHECK_THAT(std::string(status.message()), Catch::Contains(error));
  io.RunAndWait([&] { client.reset(); });
}

TEST_CASE("Vectors of a size other than the batch's are rejected") {
  WorkerFixture fixture;
  const BatchReference reference = fixture.Submit();
  std::vector<std::byte> bytes(kSamples * kWidth * 4 - 4);
  const auto deadline = rpc::Clock::time_point::max();
  const Status pulled =
      fixture.Run(fixture.worker->Pull(reference, {}, {Precision::kF32, bytes, nullptr}, deadline))
          .status();
  CHECK(absl::IsInvalidArgument(pulled));
  CHECK_THAT(std::string(pulled.message()), Catch::Contains("expected 880"));
  const Status pushed = fixture.Run(fixture.worker->Push(
      reference, {}, fixture.rates, {Precision::kBf16, 1.0F, bytes, nullptr}, deadline));
  CHECK(absl::IsInvalidArgument(pushed));
  CHECK(fixture.Pull(reference).ok());
}

}  // namespace
}  // namespace simurgh
