#include "config/sections.h"

#include <chrono>

#include <catch2/catch.hpp>

#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

using std::chrono::milliseconds;

ClusterConfig Parse(const std::string& text) {
  StatusOr<ClusterConfig> config = ParseClusterConfig(text, kSamplePath, {});
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  return *std::move(config);
}

}  // namespace

TEST_CASE("Folders and nodes of partitions are read", "[config]") {
  std::string text = kSample;
  const std::string partitions = "partitions: 3\n";
  text.replace(text.find(partitions), partitions.size(),
               "arena_directory: /dev/shm\n  numa_nodes: [0, 1]\n");
  const ClusterConfig config = Parse(text);
  CHECK(config.embedding_ps.arena_directory == "/dev/shm");
  CHECK(config.embedding_ps.numa_nodes == std::vector<uint32_t>{0, 1});
}

TEST_CASE("The folder of the model begins in the folder of the file", "[config]") {
  const auto directory_of = [](const std::string& path) {
    const auto config =
        ParseClusterConfig(kSample, "config/sample.yaml",
                           {"data.train=[README.md]", "checkpoint={directory: " + path + "}"});
    REQUIRE(config.status() == absl::OkStatus());
    return config->checkpoint.directory;
  };
  CHECK(directory_of("models/new") == "config/models/new");
  CHECK(directory_of("../models") == "models");
  CHECK(directory_of("/srv/models") == "/srv/models");
  CHECK(Parse(kSample).checkpoint.directory == "models/sample");
  std::string text = kSample;
  text.resize(text.find("checkpoint:"));
  CHECK(Parse(text).checkpoint.directory.empty());
}

TEST_CASE("Services, addresses and timeouts are read", "[config]") {
  const ClusterConfig config = Parse(kSample);
  CHECK(config.name == "sample");
  CHECK(config.seed == 7);
  CHECK(config.embedding_ps.partitions == 3);
  CHECK(config.embedding_ps.arena_directory.empty());
  CHECK(config.embedding_ps.numa_nodes.empty());
  REQUIRE(config.embedding_ps.instances.size() == 2);
  CHECK(config.embedding_ps.instances[0].metrics == "127.0.0.1:7501");
  CHECK(config.embedding_ps.instances[1].address == "unix:///tmp/ps1.sock");
  CHECK(config.embedding_ps.instances[1].metrics.empty());
  CHECK(config.embedding_worker.threads == 2);
  CHECK(config.embedding_worker.batch_expiry == milliseconds(90'000));
  CHECK(config.embedding_worker.instances[0].address == "[::1]:7411");
  CHECK(config.nn_worker.threads == 4);
  CHECK(config.nn_worker.instances[0].metrics == "localhost:7521");
  CHECK(config.rpc.connect_timeout == milliseconds(500));
  CHECK(config.rpc.call_timeout == milliseconds(30'000));
  CHECK(config.rpc.max_frame_bytes == 65'536);
  CHECK(config.rpc.security == Security::kLoopback);
}

TEST_CASE("Paths of certificates begin in the folder of the file", "[config]") {
  const StatusOr<ClusterConfig> config = ParseClusterConfig(
      kSample, "config/sample.yaml",
      {"rpc.security=tls", "data.train=[README.md]",
       "rpc.tls={certificate: README.md, key: adult.yaml, authority: ../LICENSE, peer_name: ps}"});
  REQUIRE(config.status() == absl::OkStatus());
  CHECK(config->rpc.security == Security::kTls);
  CHECK(config->rpc.tls.certificate == "config/README.md");
  CHECK(config->rpc.tls.key == "config/adult.yaml");
  CHECK(config->rpc.tls.authority == "LICENSE");
  CHECK(config->rpc.tls.peer_name == "ps");
  CHECK(config->rpc.tls.where ==
        "--set rpc.tls={certificate: README.md, key: adult.yaml, authority: ../LICENSE, "
        "peer_name: ps}: rpc.tls");
}

TEST_CASE("Tables of one entry share everything but the name", "[config]") {
  const ClusterConfig config = Parse(kSample);
  REQUIRE(config.tables.size() == 3);
  const TableConfig& city = config.tables[0];
  CHECK(city.dim == 4);
  CHECK(city.capacity_rows == 1000);
  CHECK(city.weight_bound == 10.0F);
  CHECK(city.initializer.kind == InitializerConfig::Kind::kNormal);
  CHECK(city.initializer.stddev == 0.5F);
  CHECK(city.optimizer.row_wise);
  CHECK(city.optimizer.epsilon == 1e-9F);
  CHECK(config.tables[1].name == "item");
  CHECK(config.tables[2].name == "shop");
  for (const size_t i : {1, 2}) {
    CHECK(config.tables[i].dim == 16);
    CHECK(config.tables[i].optimizer.kind == SparseOptimizerConfig::Kind::kSgd);
    CHECK(config.tables[i].optimizer.learning_rate == 0.5F);
  }
}

TEST_CASE("Features default to the column and table of their name", "[config]") {
  const ClusterConfig config = Parse(kSample);
  REQUIRE(config.features.size() == 4);
  CHECK(config.features[0].column == "city");
  CHECK(config.features[0].hash_stack.rounds == 2);
  CHECK(config.features[0].hash_stack.buckets == 500);
  CHECK(config.features[1].column == "items");
  CHECK(config.features[1].hash_stack.rounds == 0);
  CHECK(config.features[0].table_index == 0);
  CHECK(config.features[1].table_index == 1);
  CHECK(config.features[2].table_index == 1);
  CHECK(config.features[3].table_index == 2);
  CHECK(config.embedding_width() == 4 + 16 + 16 + 16);
}

TEST_CASE("Columns, model and training are read", "[config]") {
  const ClusterConfig config = Parse(kSample);
  const std::vector<ColumnConfig>& columns = config.data.columns;
  CHECK(config.data.csv.separator == ';');
  CHECK(config.data.train == std::vector<std::string>{"CMakeLists.txt"});
  CHECK(config.data.test.empty());
  REQUIRE(columns.size() == 6);
  CHECK(columns[0].transform == ColumnConfig::Transform::kLog1p);
  CHECK(columns[0].mean == 2.0);
  CHECK(columns[0].stddev == 0.25);
  CHECK(columns[0].missing == -1.0);
  CHECK(columns[1].separator == '\0');
  CHECK(columns[2].separator == '|');
  CHECK(columns[4].kind == ColumnConfig::Kind::kSkip);
  CHECK(columns[5].positive == std::vector<std::string>{"yes", "1"});

  REQUIRE(config.model.towers.size() == 2);
  const std::vector<LayerConfig>& bottom = config.model.towers[0].layers;
  REQUIRE(bottom.size() == 3);
  CHECK(bottom[0].kind == LayerConfig::Kind::kLinear);
  CHECK(bottom[0].width == 8);
  CHECK(bottom[1].kind == LayerConfig::Kind::kBatchNorm);
  CHECK(bottom[1].momentum == 0.2F);
  CHECK(bottom[1].epsilon == 1e-5F);
  CHECK(bottom[2].kind == LayerConfig::Kind::kSigmoid);
  CHECK(config.model.towers[1].inputs == std::vector<std::string>{"bottom", "embeddings"});
  CHECK(config.model.towers[1].layers[1].kind == LayerConfig::Kind::kBatchNorm);
  CHECK(config.model.towers[1].layers[2].kind == LayerConfig::Kind::kRelu);

  CHECK(config.training.batch_size == 64);
  CHECK(config.training.epochs == 1);
  CHECK(config.training.staleness == 4);
  CHECK_FALSE(config.training.drop_last);
  CHECK(config.training.dense_optimizer.kind == DenseOptimizerConfig::Kind::kAdam);
  CHECK(config.training.dense_optimizer.learning_rate == 1e-3F);
  CHECK(config.training.dense_optimizer.beta2 == 0.999F);
}

TEST_CASE("Daemons listen at their address unless the file names another one", "[config]") {
  // Equal listening addresses are those of different hosts.
  StatusOr<ClusterConfig> config = ParseClusterConfig(
      kSample, kSamplePath,
      {"rpc.security=insecure", "cluster.token_file=LICENSE",
       "embedding_ps.instances.0={address: \"a:7401\", listen: \"0.0.0.0:7401\"}",
       "embedding_ps.instances.1={address: \"b:7401\", listen: \"0.0.0.0:7401\", "
       "metrics: \"b:7501\", metrics_listen: \"0.0.0.0:7501\"}"});
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  const std::vector<InstanceConfig>& servers = config->embedding_ps.instances;
  CHECK(servers[0].address == "a:7401");
  CHECK(servers[0].listens_at() == "0.0.0.0:7401");
  CHECK(servers[1].metrics == "b:7501");
  CHECK(servers[1].metrics_listens_at() == "0.0.0.0:7501");
  CHECK(config->embedding_worker.instances[0].listens_at() == "[::1]:7411");
  CHECK(config->nn_worker.instances[0].metrics_listens_at() == "localhost:7521");
}

TEST_CASE("Ports of 0 do not clash", "[config]") {
  StatusOr<ClusterConfig> config =
      ParseClusterConfig(kSample, kSamplePath,
                         {"embedding_ps.instances.0.address=\"127.0.0.1:0\"",
                          "embedding_ps.instances.1.address=\"127.0.0.1:0\""});
  INFO(config.status().ToString());
  CHECK(config.ok());
}

}  // namespace simurgh
