#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/config/cluster_config.h"

namespace simurgh {
namespace {

// Stands for data files that are generated: any readable file will do.
const std::vector<std::string> kExistingData = {"data.train=[adult.yaml]", "data.test=[]"};

ClusterConfig Load(const std::string& path, const std::vector<std::string>& overrides) {
  StatusOr<ClusterConfig> config = LoadClusterConfig(path, overrides);
  INFO(path << ": " << config.status().ToString());
  REQUIRE(config.ok());
  return *std::move(config);
}

}  // namespace

TEST_CASE("adult-persia.yaml is PERSIA's model of the Adult data", "[config]") {
  const ClusterConfig config = Load("config/adult-persia.yaml", kExistingData);
  CHECK(config.embedding_ps.instances.size() == 2);
  CHECK(config.embedding_width() == 64);
}

TEST_CASE("adult.yaml loads", "[config]") {
  CHECK(Load("config/adult.yaml", kExistingData).embedding_width() == 104);
}

TEST_CASE("criteo-synthetic.yaml loads", "[config]") {
  CHECK(Load("config/criteo-synthetic.yaml", kExistingData).embedding_width() == 416);
}

}  // namespace simurgh
