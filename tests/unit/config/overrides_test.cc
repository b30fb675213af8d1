#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "config/sections.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

ClusterConfig Parse(const std::vector<std::string>& overrides) {
  StatusOr<ClusterConfig> config = ParseClusterConfig(kSample, kSamplePath, overrides);
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  return *std::move(config);
}

std::string ErrorOf(const std::string& override_text) {
  const Status status = ParseClusterConfig(kSample, kSamplePath, {override_text}).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

}  // namespace

TEST_CASE("Overrides change, add and append, the last one last", "[config]") {
  const ClusterConfig config =
      Parse({"training.batch_size=32", "training.epochs=9", "training.epochs=5",
             "rpc.call_timeout=2m", "tables.1.dim=8", "tables.0.initializer={kind: constant}",
             "embedding_ps.instances.2.address=\"127.0.0.1:7403\"",
             "data.test=[CMakePresets.json, CMakeLists.txt]", "cluster.name=a-b"});
  CHECK(config.training.batch_size == 32);
  CHECK(config.training.epochs == 5);
  CHECK(config.rpc.call_timeout == std::chrono::minutes(2));
  CHECK(config.tables[0].dim == 4);
  CHECK(config.tables[1].dim == 8);
  CHECK(config.tables[2].dim == 8);
  CHECK(config.tables[0].initializer.kind == InitializerConfig::Kind::kConstant);
  REQUIRE(config.embedding_ps.instances.size() == 3);
  CHECK(config.embedding_ps.instances[2].address == "127.0.0.1:7403");
  CHECK(config.data.test == std::vector<std::string>{"CMakePresets.json", "CMakeLists.txt"});
  CHECK(config.name == "a-b");
}

TEST_CASE("An override may make a section that the file lacks", "[config]") {
  CHECK(Parse({"tables.1.initializer.low=-0.5"}).tables[2].initializer.low == -0.5F);
}

TEST_CASE("An override may make a list that the file lacks", "[config]") {
  const ClusterConfig config =
      Parse({"loaders.instances.0.metrics=127.0.0.1:1", "loaders.instances.1.metrics=127.0.0.1:2",
             "nn_worker.instances.0.address=127.0.0.1:3", "data.validation.0=CMakeLists.txt"});
  REQUIRE(config.loaders.instances.size() == 2);
  CHECK(config.loaders.instances[1].metrics == "127.0.0.1:2");
  CHECK(config.data.validation == std::vector<std::string>{"CMakeLists.txt"});
  CHECK(ErrorOf("data.validation.1=x") ==
        "--set data.validation.1=x: data.validation: '1' is not an index of this list; "
        "use 0 to 0; 0 appends");
}

TEST_CASE("Addresses need no quotes in an override", "[config]") {
  CHECK(Parse({"embedding_ps.instances.0.address=127.0.0.1:0"}).embedding_ps.instances[0].address ==
        "127.0.0.1:0");
  CHECK(Parse({"embedding_ps.instances.0.address=[::1]:18001"}).embedding_ps.instances[0].address ==
        "[::1]:18001");
}

TEST_CASE("An override without a value does not remove a section", "[config]") {
  for (const char* override_text : {"training=", "training=~", "tables=", "tables.0="}) {
    INFO(override_text);
    CHECK_THAT(ErrorOf(override_text), Catch::Contains("would remove all keys of the section"));
  }
}

TEST_CASE("What an override breaks is reported at the override", "[config]") {
  CHECK(ErrorOf("training.epochs=x") ==
        "--set training.epochs=x: training.epochs: 'x' is not an integer; "
        "expected: integer from 0 to 1000000");
  CHECK(
      ErrorOf("training.epochs=") ==
      "--set training.epochs=: training.epochs: has no value; expected: integer from 0 to 1000000");
  CHECK(ErrorOf("training.batchsize=1") ==
        "--set training.batchsize=1: training.batchsize: unknown key; "
        "the nearest known key is 'batch_size'");
  CHECK(ErrorOf("trainin.batch_size=1") ==
        "--set trainin.batch_size=1: trainin: unknown key; the nearest known key is 'training'");
  CHECK(ErrorOf("features.1.table=itme") ==
        "--set features.1.table=itme: features.1.table: no table is named 'itme'; "
        "the nearest table is 'item'");
  CHECK(ErrorOf("data.train.0=gone.csv") ==
        "--set data.train.0=gone.csv: data.train.0: cannot read 'gone.csv': "
        "No such file or directory; "
        "give a path that is absolute or relative to the folder of the YAML file");
  CHECK(ErrorOf("embedding_ps.instances.2.metrics=127.0.0.1:1") ==
        "--set embedding_ps.instances.2.metrics=127.0.0.1:1: embedding_ps.instances.2.address: "
        "missing; expected: host:port, tcp://host:port, auto://host:port, unix:///path or "
        "shm:///path");
}

TEST_CASE("Overrides that are none", "[config]") {
  CHECK(ErrorOf("training.epochs") ==
        "--set training.epochs: no '=' in the override; write section.key=value");
  CHECK(ErrorOf("training..epochs=1") ==
        "--set training..epochs=1: an empty component in the key; write section.key=value");
  CHECK(ErrorOf("=1") == "--set =1: an empty component in the key; write section.key=value");
  CHECK(ErrorOf("tables.4.dim=8") ==
        "--set tables.4.dim=8: tables: '4' is not an index of this list; "
        "use 0 to 2; 2 appends");
  CHECK(ErrorOf("tables.city.dim=8") ==
        "--set tables.city.dim=8: tables: 'city' is not an index of this list; "
        "use 0 to 2; 2 appends");
  CHECK(ErrorOf("training.batch_size.x=1") ==
        "--set training.batch_size.x=1: training.batch_size: a value without keys; "
        "shorten the key");
  CHECK(ErrorOf("data.train=[a").starts_with("--set data.train=[a: YAML syntax: "));
  CHECK(ErrorOf("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q=1") ==
        "--set a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q=1: more than 16 components; "
        "write section.key=value");
}

}  // namespace simurgh
