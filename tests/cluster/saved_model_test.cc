// The model that a training leaves on disk, against what the daemons ended with.

#include <bit>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/hash.h"
#include "model/model_directory.h"
#include "model/tensor_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

template <typename T>
std::vector<T> ReadAll(TensorFileReader& file, const TensorSpec& tensor) {
  std::vector<T> values(tensor.rows() * tensor.row_bytes() / sizeof(T));
  REQUIRE(file.Read(tensor.name, 0, tensor.rows(), std::as_writable_bytes(std::span(values))) ==
          absl::OkStatus());
  return values;
}

uint64_t HashFloats(const std::vector<float>& values, uint64_t seed) {
  return HashBytes({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)},
                   seed);
}

// Table::ContentDigest of the rows in a file.
uint64_t DigestOf(TensorFileReader& file) {
  std::vector<uint64_t> ids;
  std::vector<std::vector<float>> parts;
  for (const TensorSpec& tensor : file.tensors()) {
    if (tensor.name == "id") ids = ReadAll<uint64_t>(file, tensor);
    if (tensor.dtype == DType::kF32) parts.push_back(ReadAll<float>(file, tensor));
  }
  uint64_t digest = 0;
  for (size_t row = 0; row < ids.size(); ++row) {
    std::vector<float> values;
    for (const std::vector<float>& part : parts) {
      const size_t width = part.size() / ids.size();
      values.insert(values.end(), part.begin() + static_cast<ptrdiff_t>(row * width),
                    part.begin() + static_cast<ptrdiff_t>((row + 1) * width));
    }
    digest += HashFloats(values, Mix64(ids[row]));
  }
  return digest;
}

// TrainingJob::NetworkDigest of the dense weights in a file.
std::string DenseDigest(const std::string& path) {
  TensorFileReader file = TensorFileReader::Open(path).value();
  std::vector<float> parameters;
  std::vector<float> state;
  for (const TensorSpec& tensor : file.tensors()) {
    const std::vector<float> values = ReadAll<float>(file, tensor);
    const bool in_state = tensor.name.starts_with("optimizer.") ||
                          tensor.name.starts_with("average.") ||
                          tensor.name.find(".running_") != std::string::npos;
    std::vector<float>& part = in_state ? state : parameters;
    part.insert(part.end(), values.begin(), values.end());
  }
  return absl::StrCat(absl::Hex(HashFloats(state, HashFloats(parameters, 0)), absl::kZeroPad16));
}

Checkpoint OnlyCheckpoint(const std::string& folder) {
  ModelDirectory model(folder);
  REQUIRE(model.Steps().value().size() == 1);
  Checkpoint checkpoint = model.Latest().value().checkpoint;
  CHECK(model.Open(checkpoint.manifest.step)->Verify([](const auto&...) {}).value().empty());
  return checkpoint;
}

TEST_CASE("The saved model is what servers and trainer ended with") {
  const auto [config, ranks, workers] = GENERATE(table<std::string, size_t, size_t>(
      {{"config/adult.yaml", 1, 1}, {"config/adult-persia.yaml", 2, 2}}));
  CAPTURE(config, ranks);
  const TemporaryFolder folder;
  const std::string model = folder.path() + "/model";
  TestCluster cluster({.config = config,
                       .workers = workers,
                       .ranks = ranks,
                       .overrides = {"checkpoint.directory=" + model},
                       .digests = true});
  const auto trainers = cluster.StartTrainers(ranks, {"training.mode=sync"});
  TrainerOutcome outcome;
  for (size_t rank = ranks; rank-- > 0;) {
    outcome = Finish(*trainers[rank]);
    CAPTURE(trainers[rank]->log());
    REQUIRE(outcome.exit_code == 0);
  }
  const Checkpoint saved = OnlyCheckpoint(model);
  CHECK(saved.manifest.step > 100);
  CHECK(DenseDigest(saved.Path("dense.safetensors")) == outcome.network_digest);

  std::map<std::string, uint64_t> digests;
  for (const auto& entry : std::filesystem::directory_iterator(saved.Path("rows"))) {
    const std::string table = entry.path().filename();
    for (size_t server = 0; server < 2; ++server) {
      TensorFileReader file =
          TensorFileReader::Open(absl::StrCat(entry.path().string(), "/", server, ".safetensors"))
              .value();
      CHECK(file.metadata().at("table") == table);
      digests[table] += DigestOf(file);
    }
  }
  CHECK(digests == cluster.StopServersForDigests());
}

TEST_CASE("A folder that cannot be written ends the trainer before it trains") {
  TestCluster cluster(
      {.config = "config/adult.yaml", .overrides = {"checkpoint.directory=/proc/model"}});
  const auto trainer = cluster.StartTrainer();
  CHECK(Finish(*trainer).exit_code != 0);
  CHECK_THAT(trainer->log(), Catch::Contains("/proc/model"));
  CHECK_THAT(trainer->log(), !Catch::Contains("training starts"));
}

}  // namespace
}  // namespace simurgh::testing
