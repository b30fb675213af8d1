#include "predict/served_versions.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <spdlog/sinks/base_sink.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/log.h"
#include "predict/predictor.h"
#include "predict/scorer.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waiting.h"
#include "tests/unit/predict/versioned_model.h"

namespace simurgh::testing {
namespace {

ServedVersions::Options Fast(const std::string& model, bool maps_rows = false) {
  return {
      .model = model, .poll = std::chrono::milliseconds(1), .loading = {.maps_rows = maps_rows}};
}

bool Reaches(const ServedVersions& versions, uint64_t step) {
  return Eventually([&] {
    const auto current = versions.Current();
    return current != nullptr && current->step() == step;
  });
}

ScoredRows Score(const std::shared_ptr<const ModelVersion>& model, const ScoreRequest& request) {
  Predictor predictor = Predictor::Create(*model).value();
  const ScoreRequest* requests[] = {&request};
  std::vector<ScoredRows> scored(1);
  REQUIRE(predictor.Score(*model, requests, scored) == absl::OkStatus());
  return scored[0];
}

TEST_CASE("Every answer is of one version while full ones and deltas are swapped in") {
  const bool maps_rows = GENERATE(false, true);
  constexpr uint64_t kSwaps = 300;
  const TemporaryFolder folder("/dev/shm");
  VersionedModel writer(folder.Path("model"));
  Checkpoint newest = writer.WriteFull(1);
  MetricRegistry registry;
  ServedVersions versions(Fast(folder.Path("model"), maps_rows), registry);
  Scorer scorer({.threads = 2, .max_batch_rows = 16}, registry);
  REQUIRE(Reaches(versions, 1));
  std::atomic<uint64_t> answers = 0;
  std::atomic<uint64_t> wrong = 0;
  std::jthread client([&](const std::stop_token& stop) {
    for (uint64_t i = 0; !stop.stop_requested(); ++i) {
      std::promise<void> answered;
      const auto version = versions.Current();
      scorer.Submit(version,
                    VersionedModel::Request(i % VersionedModel::kIds, i * 7 % VersionedModel::kIds),
                    std::chrono::minutes(1), [&](StatusOr<ScoredRows> scored) {
                      if (!scored.ok() || VersionedModel::VersionOf(*scored) != version->step()) {
                        ++wrong;
                      }
                      ++answers;
                      answered.set_value();
                    });
      answered.get_future().wait();
    }
  });
  for (uint64_t version = 2; version <= kSwaps; ++version) {
    newest = version % 10 == 0 ? writer.WriteFull(version) : writer.WriteDelta(version, newest);
    // By then it is in use.
    const std::string step = absl::StrCat("\nsimurgh_serve_model_step ", version, "\n");
    REQUIRE(Eventually([&] { return absl::StrContains(registry.Serialize(), step); }));
    REQUIRE(versions.Steps() == std::vector<uint64_t>{version - 1, version});
  }
  CHECK(Eventually([&] { return answers > kSwaps / 2; }));
  client.request_stop();
  client.join();
  CHECK(wrong == 0);
}

TEST_CASE("A row that a delta removed reads as an unseen id") {
  const bool maps_rows = GENERATE(false, true);
  const TemporaryFolder folder;
  VersionedModel writer(folder.Path("model"));
  const Checkpoint full = writer.WriteFull(10);
  MetricRegistry registry;
  ServedVersions versions(Fast(folder.Path("model"), maps_rows), registry);
  REQUIRE(Reaches(versions, 10));
  const Checkpoint delta = writer.WriteDelta(11, full, {3, 4});
  REQUIRE(Reaches(versions, 11));
  CHECK(versions.Current()->rows() == 2 * VersionedModel::kIds - 2);
  CHECK(VersionedModel::VersionOf(Score(versions.Find(10), VersionedModel::Request(1, 3))) == 10);
  CHECK(VersionedModel::VersionOf(Score(versions.Find(11), VersionedModel::Request(1, 5))) == 11);
  // a - 2 v, without b.
  CHECK(Score(versions.Find(11), VersionedModel::Request(1, 3)).probabilities[0] < 1e-4F);
  writer.WriteDelta(12, delta);
  REQUIRE(Reaches(versions, 12));
  CHECK(VersionedModel::VersionOf(Score(versions.Find(12), VersionedModel::Request(1, 3))) == 12);
}

TEST_CASE("A delta is read without the checkpoints that it continues") {
  const bool maps_rows = GENERATE(false, true);
  const TemporaryFolder folder;
  VersionedModel writer(folder.Path("model"));
  const Checkpoint full = writer.WriteFull(1);
  MetricRegistry registry;
  ServedVersions versions(Fast(folder.Path("model"), maps_rows), registry);
  REQUIRE(Reaches(versions, 1));
  std::filesystem::remove_all(full.folder + "/rows");
  const Checkpoint second = writer.WriteDelta(2, full, {7});
  REQUIRE(Reaches(versions, 2));
  std::filesystem::remove_all(second.folder + "/rows");
  // A file with all rows replaces those before it.
  writer.WriteDelta(3, second, {3}, "b");
  REQUIRE(Reaches(versions, 3));
  CHECK(versions.Current()->rows() == 2 * VersionedModel::kIds - 1);
  CHECK(VersionedModel::VersionOf(Score(versions.Current(), VersionedModel::Request(1, 7))) == 3);
  CHECK(VersionedModel::VersionOf(Score(versions.Current(), VersionedModel::Request(1, 3))) == 0);
}

TEST_CASE("Rows of lower precision take less memory and predict nearly the same") {
  const auto precision = GENERATE(VectorPrecision::kBf16, VectorPrecision::kInt8);
  const TemporaryFolder folder;
  VersionedModel writer(folder.Path("model"));
  const Checkpoint full = writer.WriteFull(1);
  MetricRegistry registry;
  ServedVersions::Options options = Fast(folder.Path("model"));
  options.loading.row_precision = precision;
  ServedVersions versions(options, registry);
  REQUIRE(Reaches(versions, 1));
  writer.WriteDelta(2, full, {3});
  REQUIRE(Reaches(versions, 2));
  for (const uint64_t step : {1, 2}) {
    const ScoredRows scored = Score(versions.Find(step), VersionedModel::Request(1, 5));
    CHECK(std::abs(scored.probabilities[0] - 0.5) < 0.01);
    CHECK(std::abs(scored.probabilities[1] - 1 / (1 + std::exp(-0.001 * step))) < 1e-5);
  }
  CHECK(Score(versions.Find(2), VersionedModel::Request(1, 3)).probabilities[0] < 0.2F);
  // The trainer's predictions still count.
  writer.WriteFull(3, {}, "0.56,0.50075");
  CHECK(Eventually([&] {
    return absl::StrContains(
        registry.Serialize(),
        "simurgh_serve_versions_refused_total{reason=\"FAILED_PRECONDITION\"}");
  }));
}

TEST_CASE("Damage in mapped rows ends the use of their version") {
  const TemporaryFolder folder;
  VersionedModel writer(folder.Path("model"));
  const Checkpoint full = writer.WriteFull(1);
  const std::string path = full.Path("rows/b/0.safetensors");
  // A bit of a row that the probe does not read.
  const auto size = std::filesystem::file_size(path);
  std::string bytes(size, '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(size));
  const float weight = 1;
  const size_t row = bytes.find(std::string(reinterpret_cast<const char*>(&weight), 4)) + 40;
  bytes[row + 2] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  MetricRegistry registry;
  ServedVersions versions(Fast(folder.Path("model"), /*maps_rows=*/true), registry);
  CHECK(Eventually([&] { return absl::StrContains(versions.Problem(), path); }));
  CHECK(absl::StrContains(versions.Problem(), "step 1 is not used"));
  CHECK(absl::StrContains(versions.Problem(), "tensor weights, rows 0 to 49: the checksum is "));
  CHECK(versions.Current() == nullptr);
  // A delta continues the damage, a full checkpoint replaces it.
  writer.WriteDelta(2, full, {}, "a");
  CHECK(Eventually([&] { return absl::StrContains(versions.Problem(), "step 2 is not used"); }));
  writer.WriteFull(3);
  REQUIRE(Reaches(versions, 3));
  CHECK(versions.Problem().empty());
}

TEST_CASE("Mapped rows of a version stay readable without its files") {
  const TemporaryFolder folder;
  VersionedModel writer(folder.Path("model"));
  const Checkpoint full = writer.WriteFull(1);
  const auto no_progress = [](uint64_t, uint64_t) { return absl::OkStatus(); };
  const Checkpoint delta = writer.WriteDelta(2, full, {7});
  // A chain of both, and a change from one to the other.
  for (const bool is_chain : {true, false}) {
    const TemporaryFolder copy;
    const std::string model = copy.Path("model");
    std::filesystem::copy(folder.Path("model"), model, std::filesystem::copy_options::recursive);
    const Checkpoint first = ModelDirectory(model).Open(is_chain ? 2 : 1).value();
    auto version = ModelVersion::Load(first, {.maps_rows = true}, no_progress).value();
    if (!is_chain) version = version->Next(ModelDirectory(model).Open(2).value()).value();
    std::filesystem::remove_all(model);
    CHECK(version->rows() == 2 * VersionedModel::kIds - 1);
    CHECK(VersionedModel::VersionOf(Score(version, VersionedModel::Request(1, 5))) == 2);
    CHECK(VersionedModel::VersionOf(Score(version, VersionedModel::Request(1, 7))) == 0);
    CHECK(version->damage() == absl::OkStatus());
  }
}

TEST_CASE("Values that a request shares stay in the request") {
  const TemporaryFolder folder;
  VersionedModel writer(folder.Path("model"));
  const auto no_progress = [](uint64_t, uint64_t) { return absl::OkStatus(); };
  const auto model = ModelVersion::Load(writer.WriteFull(1, {3}), {}, no_progress).value();
  // Two rows; their `b` is shared, the first row's `a` is bad.
  const auto request = [](std::string_view b) {
    const auto text = [](std::string_view cell) {
      return Cell{.kind = Cell::Kind::kText, .text = cell};
    };
    return ScoreRequest{.rows = 2, .columns = {{text("bad"), text("1")}, {text(b)}}};
  };
  const ScoreRequest absent = request("3");
  const ScoreRequest present = request("4");
  const ScoreRequest* requests[] = {&present, &absent, &present};
  std::vector<ScoredRows> scored(3);
  Predictor predictor = Predictor::Create(*model).value();
  REQUIRE(predictor.Score(*model, requests, scored) == absl::OkStatus());
  for (const ScoredRows& rows : scored) {
    CHECK(rows.bad_rows == 1);
    CHECK(std::isnan(rows.probabilities[0]));
  }
  CHECK(scored[0].probabilities[2] == 0.5F);
  CHECK(scored[1].probabilities[2] < 0.3F);
  CHECK(scored[2].probabilities[2] == 0.5F);
}

TEST_CASE("Threads that wait for further requests answer all of them") {
  const TemporaryFolder folder;
  VersionedModel writer(folder.Path("model"));
  const auto no_progress = [](uint64_t, uint64_t) { return absl::OkStatus(); };
  const auto model = ModelVersion::Load(writer.WriteFull(1), {}, no_progress).value();
  MetricRegistry registry;
  Scorer scorer({.threads = 4, .batch_delay = std::chrono::microseconds(200)}, registry);
  std::atomic<int> right = 0;
  std::vector<std::jthread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        std::promise<void> answered;
        scorer.Submit(model, VersionedModel::Request(1, 2), std::chrono::minutes(1),
                      [&](StatusOr<ScoredRows> scored) {
                        if (scored.ok() && VersionedModel::VersionOf(*scored) == 1) ++right;
                        answered.set_value();
                      });
        answered.get_future().wait();
      }
    });
  }
  clients.clear();
  CHECK(right == 800);
}

TEST_CASE("A pin rolls back, and its removal goes on") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  VersionedModel writer(model);
  writer.WriteFull(1);
  writer.WriteFull(2);
  MetricRegistry registry;
  ServedVersions versions(Fast(model), registry);
  REQUIRE(Reaches(versions, 2));
  const auto pin = [&](const std::string& text) {
    std::ofstream(model + "/pin.new") << text;
    std::filesystem::rename(model + "/pin.new", model + "/pin");
  };
  pin("1\n");
  REQUIRE(Reaches(versions, 1));
  writer.WriteFull(3);
  pin("step-2\n");
  REQUIRE(Reaches(versions, 2));
  pin("none");
  Pause(std::chrono::milliseconds(20));
  CHECK(versions.Current()->step() == 2);
  std::filesystem::remove(model + "/pin");
  REQUIRE(Reaches(versions, 3));
  CHECK(versions.Problem().empty());
}

TEST_CASE("The best checkpoint is served, unless the newest is wanted") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  VersionedModel writer(model);
  writer.WriteFull(1);
  writer.WriteFull(2);
  const auto name_best = [&](const std::string& step) {
    std::ofstream(model + "/best.new") << "step-" << step << "\n";
    std::filesystem::rename(model + "/best.new", model + "/best");
  };
  name_best("1");
  MetricRegistry registry;
  ServedVersions versions(Fast(model), registry);
  REQUIRE(Reaches(versions, 1));
  writer.WriteFull(3);
  name_best("2");
  REQUIRE(Reaches(versions, 2));
  versions.Reload("latest");
  REQUIRE(Reaches(versions, 3));
  versions.Reload("best");
  REQUIRE(Reaches(versions, 2));
  name_best("17");  // It is not there, as in a copy.
  REQUIRE(Reaches(versions, 3));
  std::filesystem::remove(model + "/best");
  writer.WriteFull(4);
  REQUIRE(Reaches(versions, 4));
}

TEST_CASE("A checkpoint that cannot be used leaves the version in use") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  VersionedModel writer(model);
  const Checkpoint first = writer.WriteFull(1);
  MetricRegistry registry;
  ServedVersions versions(Fast(model), registry);
  REQUIRE(Reaches(versions, 1));
  std::string reason;
  SECTION("its probe fails") {
    writer.WriteFull(2, {}, "0.5,0.9");
    reason = "FAILED_PRECONDITION";
  }
  SECTION("the delta's parent is missing") {
    Checkpoint foreign = first;
    foreign.checksum ^= 1;
    writer.WriteDelta(2, foreign);
    reason = "DATA_LOSS";
  }
  const std::string refused =
      absl::StrCat("simurgh_serve_versions_refused_total{reason=\"", reason, "\"} 1");
  CAPTURE(registry.Serialize());
  CHECK(Eventually([&] { return absl::StrContains(registry.Serialize(), refused); }));
  CHECK(versions.Current()->step() == 1);
  CHECK(versions.Problem().empty());
  writer.WriteFull(3);
  CHECK(Reaches(versions, 3));
}

// Counts lines of the log by whether the versions are by then what a line tells.
struct Reader : spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    testing::Eventually([&] { return !(versions == nullptr); });
    const absl::string_view line(message.payload.data(), message.payload.size());
    const bool is_last = absl::StrContains(line, "step 5 is in use");
    const bool is_so = is_last ? versions.load()->Current() != nullptr
                               : absl::StrContains(line, versions.load()->Problem());
    ++(is_so ? right : early);
    if (is_last) ended = true;
  }
  void flush_() override {}

  std::atomic<const ServedVersions*> versions = nullptr;
  std::atomic<int> right = 0;
  std::atomic<int> early = 0;
  std::atomic<bool> ended = false;
};

TEST_CASE("A line of the log comes after what it tells") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  const auto reader = std::make_shared<Reader>();
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("", reader));
  {
    MetricRegistry registry;
    const ServedVersions versions(Fast(model), registry);
    reader->versions = &versions;
    CHECK(Eventually([&] { return reader->right + reader->early > 0; }));  // Why there is none.
    VersionedModel(model).WriteFull(5);
    CHECK(Eventually([&] { return reader->ended.load(); }));
  }
  spdlog::set_default_logger(before);
  CHECK(reader->early == 0);
}

TEST_CASE("Without a version the reason is told, and one is waited for") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  MetricRegistry registry;
  ServedVersions versions(Fast(model), registry);
  CHECK(Eventually([&] { return absl::StrContains(versions.Problem(), model); }));
  CHECK(versions.Current() == nullptr);
  VersionedModel(model).WriteFull(5);
  CHECK(Reaches(versions, 5));
  CHECK(versions.Problem().empty());
}

TEST_CASE("A memory budget that is too small refuses a version") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  VersionedModel(model).WriteFull(5);
  MetricRegistry registry;
  ServedVersions::Options options = Fast(model);
  options.memory_budget = 1'000;
  ServedVersions versions(options, registry);
  CHECK(Eventually(
      [&] { return absl::StrContains(versions.Problem(), "1000 are left of the memory budget"); }));
}

TEST_CASE("Old versions are not ready") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  VersionedModel(model).WriteFull(5);
  MetricRegistry registry;
  ServedVersions::Options options = Fast(model);
  options.max_age = std::chrono::seconds(1);
  ServedVersions versions(options, registry);
  REQUIRE(Reaches(versions, 5));
  CHECK(Eventually(
      [&] { return absl::StrContains(versions.Problem(), "seconds ago, serving.max_age is 1s"); }));
}

}  // namespace
}  // namespace simurgh::testing
