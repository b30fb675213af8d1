// What is wrong within sections, and between them.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "config/sections.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/config/error_cases.h"
#include "tests/unit/config/sample.h"

namespace simurgh {

TEST_CASE("Invalid arena directories and NUMA nodes are errors", "[config]") {
  CheckCases({
      {"partitions: 3", "arena_directory: shm", "arena_directory",
       "embedding_ps.arena_directory: 'shm' is not an absolute path; expected: absolute path of a "
       "folder"},
      {"partitions: 3", "numa_nodes: [0, 1024]", "numa_nodes",
       "embedding_ps.numa_nodes.1: '1024' is not a node number; expected: integers from 0 to 1023"},
  });
}

TEST_CASE("Invalid folders of the model are errors", "[config]") {
  CheckCases({
      {"directory: models/sample", "directory: \"\"", "checkpoint:",
       "checkpoint.directory: an empty text; expected: path of a folder, or s3://BUCKET/PREFIX"},
      {"directory: models/sample", "directory:", "checkpoint:",
       "checkpoint.directory: has no value; expected: path of a folder, or s3://BUCKET/PREFIX"},
      {"directory: models/sample", "directory: [a]", "checkpoint:",
       "checkpoint.directory: is a list; expected: path of a folder, or s3://BUCKET/PREFIX"},
      {"directory: models/sample", "directory: ~/models", "checkpoint:",
       "checkpoint.directory: '~/models' begins with ~, which is not expanded; write out the path "
       "of the home folder"},
  });
}

TEST_CASE("Addresses", "[config]") {
  const auto bad = [](const std::string& address, const std::string& what) {
    CheckCases({{"unix:///tmp/ps1.sock", address, address,
                 absl::StrCat("embedding_ps.instances.1.address: ", what,
                              "; expected: host:port, tcp://host:port, auto://host:port, "
                              "unix:///path or shm:///path")}});
  };
  bad("localhost", "'localhost' has no port");
  bad(":7402", "':7402' has no valid host");
  bad("a b:7402", "'a b:7402' has no valid host");
  bad("::1:7402", "'::1:7402' has no valid host");
  bad("localhost:http", "the port of 'localhost:http' is not a number");
  bad("localhost:65536", "the port of 'localhost:65536' is not from 0 to 65535");
  bad("unix://ps.sock", "the path 'ps.sock' is not absolute");
  bad("shm:///" + std::string(99, 'x'), "the path has 100 bytes, more than 99");
  bad("tcp://localhost", "'localhost' has no port");
  bad("auto://localhost:65536", "the port of 'localhost:65536' is not from 0 to 65535");
  bad("udp://localhost:1", "'udp' is not a scheme");
  CheckCases({
      {"127.0.0.1:7501", "unix:///tmp/m", "unix:///tmp/m",
       "embedding_ps.instances.0.metrics: 'unix:///tmp/m' has a scheme; expected: host:port"},
      {"[::1]:7411", "127.0.0.1:7401", "{address: \"127.0.0.1:7401\"}",
       "embedding_worker.instances.0.address: '127.0.0.1:7401' is taken by "
       "embedding_ps.instances.0.address; use different addresses"},
      {"[::1]:7411", "auto://127.0.0.1:7401", "{address: \"auto://127.0.0.1:7401\"}",
       "embedding_worker.instances.0.address: 'auto://127.0.0.1:7401' is taken by "
       "embedding_ps.instances.0.address; use different addresses"},
      {"\"[::1]:7411\"", "\"[::1]:7411\", listen: \"0.0.0.0:7411\"", "listen",
       "embedding_worker.instances.0.listen: '0.0.0.0:7411' is reachable from other machines, but "
       "rpc.security is loopback; use a loopback address, rpc.security: tls, or rpc.security: "
       "insecure in a network that you trust"},
      {"metrics: \"localhost:7521\"", "listen: \"localhost:7521\"", "listen",
       "nn_worker.instances.0.listen: has no effect; remove it, or give address"},
      {"metrics: \"localhost:7521\"", "metrics_listen: \"localhost:7521\"", "metrics_listen",
       "nn_worker.instances.0.metrics_listen: has no effect; remove it, or give metrics"},
      {"localhost:7521", "127.0.0.1:7501", "{metrics: \"127.0.0.1:7501\"}",
       "nn_worker.instances.0.metrics: '127.0.0.1:7501' is taken by "
       "embedding_ps.instances.0.metrics; use different addresses"},
  });
}

TEST_CASE("Names taken twice", "[config]") {
  CheckCases({
      {"[item, shop]", "[item, city]", "[item, city]",
       "tables.1.names.1: 'city' repeats tables.0.name; use each name once"},
      {"{name: seen,", "{name: bought,", "{name: bought, column: items, table: item}\n  - {name: s",
       "features.2.name: 'bought' repeats features.1.name; use each name once"},
      {"{name: note, kind", "{name: city, kind", "{name: city, kind: skip",
       "data.columns.4.name: 'city' repeats data.columns.1.name; "
       "use each name once"},
  });
}

TEST_CASE("Features, tables and columns that do not meet", "[config]") {
  CheckCases({
      {"table: item}", "table: items}", "table: items}",
       "features.1.table: no table is named 'items'; the nearest table is 'item'"},
      {"{name: city, hash_stack", "{name: city, column: cty, hash_stack", "column: cty",
       "features.0.column: no column is named 'cty'; the nearest id or dense column is 'city'"},
      {"{name: seen, column: items", "{name: seen, column: note", "column: note",
       "features.2.column: column 'note' is a skip column; "
       "use one of age, city, items, shop"},
      {"{name: seen, column: items", "{name: seen, column: sold", "column: sold",
       "features.2.column: column 'sold' is a label column; "
       "use one of age, city, items, shop"},
      {"[item, shop]", "[item, spare, shop]", "[item, spare",
       "tables.1.names.1: no feature uses table 'spare'; "
       "remove the table, or name it in a feature"},
      {"kind: label, positive: [\"yes\", 1]", "kind: skip",
       "columns:", "data.columns: no label; give one column kind: label"},
      {"separator: \";\"", "header: false\n    strict: true", "strict",
       "data.csv.strict: has no effect; remove it, or set header: true"},
      {"separator: \";\"\n  columns:\n    - {name: age",
       "header: false\n  columns:\n    - {header_name: the age, name: age", "header_name",
       "data.columns.0.header_name: has no effect; remove it, or set csv.header: true"},
      {"positive: [\"yes\", 1]", "negative: [\"no\"]", "negative",
       "data.columns.5.negative: has no effect; remove it, or give positive"},
      {"positive: [\"yes\", 1]", "positive: [\"yes\"], negative: [\"no\", \"yes\"]", "negative",
       "data.columns.5.negative: 'yes' is also in positive; keep it in one list"},
      {"  threads: 4", "  precision: f16\n  device: cpu", "precision",
       "nn_worker.precision: f16 requires a CUDA device; use f32 or bf16, or device: cuda"},
      {"format: csv", "format: criteo", "  csv:",
       "data.csv: has no effect with format: criteo; remove it, or set format: csv\n"
       "sample.yaml:35: data.columns: has no effect; remove it, or choose another format"},
  });
}

TEST_CASE("Embeddings together too wide for a layer", "[config]") {
  std::string text = Replaced(kSample, "dim: 16", "dim: 1024");
  std::string features = "features:\n";
  for (int i = 0; i < 63; ++i) {
    absl::StrAppend(&features, "  - {name: f", i, ", column: items, table: item}\n");
  }
  text = Replaced(text, "features:\n", features);
  CHECK(ErrorOf(text) ==
        "sample.yaml:25: features: the embeddings are 67588 wide together; "
        "use smaller dims or fewer features: at most 65536");
}

TEST_CASE("Models that do not hold together", "[config]") {
  CheckCases({
      {"input: dense", "input: dens", "input: dens",
       "model.towers.0.input: 'dens' is neither dense, embeddings nor an earlier tower; "
       "the nearest input is 'dense'"},
      {"input: dense", "input: top", "input: top",
       "model.towers.0.input: 'top' is neither dense, embeddings nor an earlier tower; "
       "use one of embeddings, dense, embeddings.city, embeddings.bought, embeddings.seen, "
       "embeddings.shop"},
      {"[bottom, embeddings]", "[bottom, bottom]", "[bottom, bottom]",
       "model.towers.1.input.1: 'bottom' repeats model.towers.1.input.0; use each name once"},
      {"[bottom, embeddings]", "embeddings", "{name: bottom",
       "model.towers.0.name: no later tower reads 'bottom'; "
       "name it in an input, or remove the tower"},
      {"[bottom, embeddings]", "bottom",
       "towers:", "model.towers: no tower reads embeddings; give a tower input: embeddings"},
      {"- name: top", "- name: bottom", "- name: bottom",
       "model.towers.1.name: 'bottom' repeats model.towers.0.name; "
       "use each name once"},
      {"- name: top", "- name: dense", "- name: dense",
       "model.towers.1.name: 'dense' is an input of the model; give the tower another name"},
      {"relu, {linear: 1}]", "relu, {linear: 2}]", "layers: [{linear: 32}",
       "model.towers.1.layers.3: the last tower must output one number; "
       "end its layers with {linear: 1} or sum; the loss applies sigmoid or exp"},
      {"relu, {linear: 1}]", "relu, {linear: 1}, sigmoid]", "layers: [{linear: 32}",
       "model.towers.1.layers.4: the last tower must output one number; "
       "end its layers with {linear: 1} or sum; the loss applies sigmoid or exp"},
      {"batch_norm, relu", "batchnorm, relu", "batchnorm",
       "model.towers.1.layers.1: 'batchnorm' is not a layer; the nearest layer is 'batch_norm'"},
      {"batch_norm, relu", "dropout, relu", "dropout",
       "model.towers.1.layers.1: 'dropout' is not a layer; write {dropout: ...} with what the "
       "reference names"},
      {"{linear: 32}", "{}", "layers: [{}",
       "model.towers.1.layers.0: not a single layer; set one of linear, batch_norm, layer_norm, "
       "dice, dropout, dot, fm, cross, sum, product, bilinear, joint, mix, attention, "
       "self_attention"},
      {"input: dense", "input: embeddings", "towers:",
       "model.towers: no tower reads dense; give a tower input: dense, or columns kind: skip"},
      {"{name: bottom", "{name: dense", "{name: dense",
       "model.towers.0.name: 'dense' is an input of the model; give the tower another name"},
      {"kind: dense, transform: log1p, mean: 2, stddev: 0.25, missing: -1", "kind: skip",
       "input: dense",
       "model.towers.0.input: 'dense' is neither dense, embeddings nor an earlier tower; "
       "use one of embeddings, embeddings.city, embeddings.bought, embeddings.seen, "
       "embeddings.shop"},
  });
}

TEST_CASE("Sequences and experts that do not hold together", "[config]") {
  const std::string bottom = "{name: bottom, input: dense";
  const auto with = [&](const std::string& tower) { return tower + "\n    - " + bottom; };
  CheckCases({
      {bottom, with("{name: x, input: [embeddings.city, mask.city], layers: [mean]}"), "mask.city",
       "model.towers.0.input.1: 'mask.city' is neither dense, embeddings nor an earlier tower; "
       "give the feature pooling: raw and mask: true"},
      {"[{linear: 32}", "[last, {linear: 32}", "layers: [last",
       "model.towers.1.layers.0: the last inputs are not a raw feature and its mask; "
       "end the tower's input with embeddings.FEATURE and mask.FEATURE"},
      {"[{linear: 32}", "[{mix: 7}, {linear: 32}", "layers: [{mix",
       "model.towers.1.layers.0: 60 columns are not 7 factors and 7 pieces of one width; "
       "read a tower with a factor for each piece first, then the pieces"},
      {bottom, with("{name: x, input: embeddings.city, layers: [relu], experts: 2}"), "experts",
       "model.towers.0.experts: has no effect without gates; name gates"},
      {bottom, with("{name: x, input: embeddings.city, layers: [relu], gates: [a]}"), "gates",
       "model.towers.0.gates: has no effect; remove it, or set experts"},
      {bottom, with("{name: x, input: embeddings.city, layers: [relu], experts: 2, gates: [a]}"),
       "{name: x",
       "model.towers.0.name: no later tower reads 'x.a'; name it in an input, or remove the tower"},
      {bottom, with("{name: x, input: y, layers: [relu], experts: 2, gates: [a]}"), "input: y",
       "model.towers.0.input: 'y' is neither dense, embeddings nor an earlier tower; "
       "use one of embeddings, dense, embeddings.city, embeddings.bought, embeddings.seen, "
       "embeddings.shop"},
      {"[{linear: 32}, batch_norm", "[{attention: {hidden: [0]}}, batch_norm", "[0]",
       "model.towers.1.layers.0.attention.hidden.0: '0' is not a width; "
       "expected: integers from 1 to 65536"},
  });
}

TEST_CASE("Data files that cannot be read", "[config]") {
  CheckCases({
      {"[CMakeLists.txt]", "[CMakeLists.txt,\n    nowhere.csv]", "nowhere.csv",
       "data.train.1: cannot read 'nowhere.csv': No such file or directory; "
       "give a path that is absolute or relative to the folder of the YAML file"},
      {"[CMakeLists.txt]", "[src]", "[src]",
       "data.train.0: cannot read 'src': it is a folder; name the files in it"},
      {"[CMakeLists.txt]", "[~/a.csv]", "[~/a.csv]",
       "data.train.0: cannot read '~/a.csv': No such file or directory; "
       "~ is not expanded; write out the path of the home folder"},
  });
}

TEST_CASE("A URI of data has no credentials", "[config]") {
  CheckCases({{"train: [CMakeLists.txt]", "train: ['s3://KEY:SECRET@bucket/day.csv']", "train:",
               "data.train.0: has credentials in its URI, which logs and the model would show; "
               "remove them, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
               "environment, or use ~/.aws/credentials"}});
}

TEST_CASE("Patterns of data files", "[config]") {
  const TemporaryFolder folder;
  for (const char* name : {"b-1.csv", "a-10.csv", "a-2.csv", "a[1].csv", "c.tsv"}) {
    folder.Write(name, "1\n");
  }
  const auto files = [&folder](const std::string& given) {
    const auto config = ParseClusterConfig(kSample, kSamplePath, {"data.train=[" + given + "]"});
    REQUIRE(config.status() == absl::OkStatus());
    std::vector<std::string> names;
    for (const std::string& path : config->data.train) {
      CHECK(path.starts_with(folder.Path("")));
      names.push_back(path.substr(folder.Path("").size()));
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const std::string quote = "\"";
  CHECK(files(quote + folder.Path("*.csv") + quote) ==
        Names{"a-10.csv", "a-2.csv", "a[1].csv", "b-1.csv"});
  CHECK(files(quote + folder.Path("b*") + quote + ", " + quote + folder.Path("a-?.csv") + quote) ==
        Names{"b-1.csv", "a-2.csv"});
  CHECK(files(quote + folder.Path("a[1].csv") + quote) == Names{"a[1].csv"});
  CHECK(files(quote + folder.Path("[bc]*") + quote) == Names{"b-1.csv", "c.tsv"});
  const std::string none = folder.Path("d*.csv");
  CHECK(ParseClusterConfig(kSample, kSamplePath, {"data.train=[\"" + none + "\"]"})
            .status()
            .message() ==
        "--set data.train=[\"" + none + "\"]: data.train.0: cannot read '" + none +
            "': No such file or directory; no file matches the pattern; correct it");
}

TEST_CASE("Security: missing and unusable files are errors", "[config]") {
  const std::string limit = "max_frame_bytes: 65536}";
  const std::string two = "certificate: LICENSE, key: LICENSE";
  const auto with_tls = [](const std::string& security, const std::string& tls) {
    return "max_frame_bytes: 65536, security: " + security + ", tls: {" + tls + "}}";
  };
  CheckCases({
      {limit, with_tls("tls", two),
       "rpc:", "rpc.tls.authority: missing; expected: path of a PEM file"},
      {limit, with_tls("tls", two + ", authority: nowhere.pem"), "rpc:",
       "rpc.tls.authority: cannot read 'nowhere.pem': No such file or directory; "
       "give a path that is absolute or relative to the folder of the YAML file"},
      {limit, with_tls("tls", two + ", authority: ''"),
       "rpc:", "rpc.tls.authority: an empty text; expected: path of a PEM file"},
      {limit, with_tls("insecure", "key: LICENSE"),
       "rpc:", "rpc.tls.key: has no effect; remove it, or set security: tls"},
      {limit, "max_frame_bytes: 65536, security: none}",
       "rpc:", "rpc.security: 'none' is unknown; expected: one of loopback, tls, insecure"},
  });
  CheckCases({
      {limit, "max_frame_bytes: 65536, security: insecure}", "rpc:",
       "rpc.security: insecure requires a token; set cluster.token_file, or use tls, or loopback "
       "on one machine"},
      {"seed: 7", "token_file: nowhere", "cluster",
       "cluster.token_file: cannot read 'nowhere': No such file or directory; "
       "give a path that is absolute or relative to the folder of the YAML file"},
      {limit, with_tls("tls", two + ", authority: LICENSE, allowed_names: {loaders: ['*.*.x']}"),
       "rpc:",
       "rpc.tls.allowed_names.loaders.0: '*.*.x' is not a DNS name; expected: DNS names, "
       "also with a leading '*.'"},
  });
  const std::string named =
      with_tls("tls", two + ", authority: LICENSE, allowed_names: {nn_worker: [a.b, '*.c']}");
  CHECK(ErrorOf(Replaced(kSample, limit, named)) == "no error");
  CHECK(ErrorOf(kSample, {"rpc.security=insecure", "cluster.token_file=LICENSE"}) == "no error");
  const std::string bare = Replaced(kSample, limit, "max_frame_bytes: 65536, security: tls}");
  CHECK_THAT(ErrorOf(bare), Catch::Contains("rpc.tls.certificate: missing") &&
                                Catch::Contains("rpc.tls.key: missing") &&
                                Catch::Contains("rpc.tls.authority: missing"));
}

TEST_CASE("Loaders that have nowhere to go", "[config]") {
  CheckCases({
      {"rpc: {", "loaders: {instances: [{}]}\nrpc: {", "- {metrics: \"localhost",
       "nn_worker.instances.0: address is missing, which loaders need; give it an address, or "
       "remove loaders.instances"},
      {"rpc: {", "loaders: {timeout: 0s}\nrpc: {", "loaders: {timeout",
       "loaders.timeout: 0s is out of range; "
       "use 1ms to 60m"},
      {"rpc: {", "rpc: {spin: 11ms, ", "rpc: {",
       "rpc.spin: 11ms is out of range; "
       "use 0s to 10ms"},
      {"rpc: {", "rpc: {stall_timeout: 1500us, ", "rpc: {",
       "rpc.stall_timeout: 1500us is out of range; "
       "use 1ms to 60m"},
      {"rpc: {", "loaders: {feed_buffer_bytes: 1000}\nrpc: {", "loaders: {feed",
       "loaders.feed_buffer_bytes: 1000 is out of range; "
       "use 1048576 to 1125899906842624"},
      {"rpc: {", "loaders: {instances: [{address: \"a:1\"}]}\nrpc: {", "loaders: {inst",
       "loaders.instances.0.address: unknown key; use one of metrics, metrics_listen"},
  });
}

TEST_CASE("Ranks that cannot train together", "[config]") {
  const std::string ranks = "nn_worker.instances=[{address: \"a:1\"}, {address: \"b:1\"}]";
  const auto error = [&](const std::string& instances, const std::string& other) {
    const auto config = ParseClusterConfig(kSample, kSamplePath, {instances, other});
    return std::string(config.status().message());
  };
  CHECK(error(ranks, "cluster.seed=1").empty());
  CHECK_THAT(error("nn_worker.instances=[{address: \"a:1\"}, {}]", "cluster.seed=1"),
             Catch::Contains("nn_worker.instances.1: address is missing; several ranks need"));
  CHECK(error(ranks, "loaders.instances=[{}]").empty());
  CHECK_THAT(
      error(ranks, "training.retry_deadline=2m"),
      Catch::Contains(
          "nn_worker.rank_timeout: 2m is out of range; use more than training.retry_deadline, 2m"));
  CHECK_THAT(
      error("nn_worker.instances=[{address: \"a:1\"}, {address: \"b:0\"}]", "cluster.seed=1"),
      Catch::Contains("nn_worker.instances.1: 'b:0' has any port; several ranks need"));
  CHECK(error(ranks,
              "rpc={security: tls, tls: {certificate: CMakeLists.txt, key: CMakeLists.txt, "
              "authority: CMakeLists.txt}}")
            .empty());
}

TEST_CASE("A search for settings names known keys, with choices or ranges", "[config]") {
  const auto error = [](const std::string& values) {
    return ErrorOf(absl::StrCat(kSample, "tune: {", values, "}\n"));
  };
  for (const std::string good :
       {"training.batch_size: [64, 128]", "tables.N.dim: [4, 8]", "tables.1.dim: {factor: 2}",
        "training.dense_optimizer.learning_rate: {low: 1e-4, high: 0.1, log: true}",
        "training.batch_size: {low: 32, high: 256, step: 32}", "model: [deepfm, dcn_v2]",
        "model.towers.1.layers: [[{linear: 1}]]", "model.deepfm.deep.0.linear: [32, 64]",
        "model.deepfm: [{deep: [{linear: 8}]}]"}) {
    CAPTURE(good);
    CHECK(error(good) == "no error");
  }
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"training.batchsize: [1]",
       "tune.training.batchsize: unknown key; the nearest known key is 'training.batch_size'"},
      {"training.batch_size.0: [1]", "tune.training.batch_size.0: unknown key"},
      {"data.validation: [[a]]", "the same in all trials, which it compares; remove it"},
      {"checkpoint: [{}]", "the same in all trials"},
      {"tune: [1]", "the same in all trials"},
      {"training.batch_size: 64", "is neither a list of choices nor a range; use [A, B]"},
      {"training.batch_size: []", "has no choice"},
      {"training.batch_size: {low: 64}", "the range has not both low and high"},
      {"training.batch_size: {low: 64, high: 32}", "low is not below high"},
      {"training.batch_size: {low: 64, high: x}", "high: 'x' is not a number"},
      {"training.batch_size: {low: 64, high: '128'}", "high: '128' is not a number"},
      {"training.batch_size: {low: 0, high: 32, log: true}", "log: true with a low of 0 or less"},
      {"training.batch_size: {low: 1, high: 32, log: 1}", "log: '1' is not true or false"},
      {"training.batch_size: {low: 1, high: 32, step: 0}", "step is not above 0"},
      {"training.batch_size: {low: 1, high: 9, step: 2, log: true}", "log: true with a step"},
      {"training.batch_size: {low: 1, high: 9, width: 2}", "'width' is no part of a range"},
      {"training.batch_size: {factor: 1}", "factor is not above 1"},
      {"training.batch_size: {factor: 2, low: 1}", "factor has other keys next to it"},
      {"training.batch_size: [1], training.batch_size: [2]", "given twice; keep one"}};
  for (const auto& [values, what] : bad) {
    CAPTURE(values);
    CHECK_THAT(error(values), Catch::Contains(what));
  }
  CHECK_THAT(ErrorOf(std::string(kSample) + "tune: [a]\n"), Catch::Contains("is not a mapping"));
}

}  // namespace simurgh
