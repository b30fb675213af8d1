#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "tests/support/skip.h"

namespace simurgh {
namespace {

using LayerKind = LayerConfig::Kind;

// Stands for data files that are generated: any readable file will do.
const std::vector<std::string> kExistingData = {"data.train=[adult.yaml]", "data.test=[]"};

ClusterConfig Load(const std::string& path, const std::vector<std::string>& overrides) {
  StatusOr<ClusterConfig> config = LoadClusterConfig(path, overrides);
  INFO(path << ": " << config.status().ToString());
  REQUIRE(config.ok());
  return *std::move(config);
}

std::vector<std::string> FeatureNames(const ClusterConfig& config) {
  std::vector<std::string> names;
  for (const FeatureConfig& feature : config.features) names.push_back(feature.name);
  return names;
}

std::vector<std::string> ColumnNames(const ClusterConfig& config, ColumnConfig::Kind kind) {
  std::vector<std::string> names;
  for (const ColumnConfig& column : config.data.columns) {
    if (column.kind == kind) names.push_back(column.name);
  }
  return names;
}

// A tower in one line: its inputs, then its layers.
std::string Describe(const TowerConfig& tower) {
  std::string text;
  for (const std::string& input : tower.inputs) absl::StrAppend(&text, input, " ");
  for (const LayerConfig& layer : tower.layers) {
    switch (layer.kind) {
      case LayerKind::kLinear:
        absl::StrAppend(&text, "> ", layer.width, " ");
        break;
      case LayerKind::kBatchNorm:
        absl::StrAppend(&text, "> bn ");
        break;
      case LayerKind::kRelu:
        absl::StrAppend(&text, "> relu ");
        break;
      case LayerKind::kGelu:
        absl::StrAppend(&text, "> gelu ");
        break;
      case LayerKind::kSigmoid:
        absl::StrAppend(&text, "> sigmoid ");
        break;
      case LayerKind::kDot:
        absl::StrAppend(&text, "> dot ", layer.width, " ");
        break;
      case LayerKind::kCross:
        absl::StrAppend(&text, "> cross ", layer.rank, " ");
        break;
      case LayerKind::kFm:
        absl::StrAppend(&text, "> fm ", layer.width, " ");
        break;
      case LayerKind::kSum:
        absl::StrAppend(&text, "> sum ");
        break;
      default:  // No layer of these files.
        absl::StrAppend(&text, "> other ");
    }
  }
  return text;
}

const std::vector<std::string> kNumbers = {"age", "education_num", "capital_gain", "capital_loss",
                                           "hours_per_week"};
const std::vector<std::string> kCategories = {"workclass",  "education",     "marital_status",
                                              "occupation", "relationship",  "race",
                                              "gender",     "native_country"};

}  // namespace

TEST_CASE("adult-persia.yaml is PERSIA's model of the Adult data", "[config]") {
  const ClusterConfig config = Load("config/adult-persia.yaml", kExistingData);
  CHECK(FeatureNames(config) == kCategories);
  CHECK(config.embedding_width() == 64);
  for (const TableConfig& table : config.tables) {
    CHECK(table.dim == 8);
    CHECK(table.initializer.kind == InitializerConfig::Kind::kUniform);
    CHECK(table.initializer.low == -0.01F);
    CHECK(table.initializer.high == 0.01F);
    CHECK(table.optimizer.kind == SparseOptimizerConfig::Kind::kAdagrad);
    CHECK(table.optimizer.learning_rate == 0.01F);
    CHECK(table.optimizer.epsilon == 1e-10F);
    CHECK(table.optimizer.initial_accumulator == 0.01F);
    CHECK(table.optimizer.accumulator_decay == 1.0F);
    CHECK_FALSE(table.optimizer.row_wise);
    CHECK(table.weight_bound == 10.0F);
  }
  CHECK(ColumnNames(config, ColumnConfig::Kind::kDense) == kNumbers);
  CHECK(ColumnNames(config, ColumnConfig::Kind::kId) == kCategories);
  CHECK(config.data.columns.size() == 15);
  for (const ColumnConfig& column : config.data.columns) {
    CHECK(column.transform == ColumnConfig::Transform::kNone);
    CHECK(column.mean == 0.0);
    CHECK(column.stddev == 1.0);
  }
  CHECK(config.data.missing_values == std::vector<std::string>{""});

  REQUIRE(config.model.towers.size() == 3);
  CHECK(Describe(config.model.towers[0]) == "dense > 16 > bn ");
  CHECK(Describe(config.model.towers[1]) == "embeddings > 128 > bn ");
  CHECK(Describe(config.model.towers[2]) == "bottom sparse > 256 > 128 > 1 ");
  CHECK(config.model.towers[0].layers[1].momentum == 0.1F);
  CHECK(config.model.towers[0].layers[1].epsilon == 1e-5F);
  CHECK(config.training.batch_size == 128);
  CHECK(config.training.epochs == 1);
  CHECK(config.training.drop_last);
  CHECK(config.training.staleness == 1);
  CHECK(config.training.dense_optimizer.kind == DenseOptimizerConfig::Kind::kSgd);
  CHECK(config.training.dense_optimizer.learning_rate == 0.1F);
  CHECK(config.embedding_ps.instances.size() == 2);
}

TEST_CASE("adult.yaml uses every number twice, scaled and as an ID", "[config]") {
  const ClusterConfig config = Load("config/adult.yaml", kExistingData);
  std::vector<std::string> expected = kCategories;
  for (const std::string& number : kNumbers) expected.push_back(absl::StrCat(number, "_id"));
  CHECK(FeatureNames(config) == expected);
  CHECK(config.embedding_width() == 8 * expected.size());
  CHECK(ColumnNames(config, ColumnConfig::Kind::kDense) == kNumbers);
  for (const ColumnConfig& column : config.data.columns) {
    const bool is_capital = column.name.starts_with("capital_");
    CHECK((column.transform == ColumnConfig::Transform::kLog1p) == is_capital);
    if (column.kind == ColumnConfig::Kind::kDense) CHECK(column.stddev != 1.0);
  }
}

TEST_CASE("criteo-synthetic.yaml uses all columns of the format", "[config]") {
  const ClusterConfig config = Load("config/criteo-synthetic.yaml", kExistingData);
  CHECK(config.data.format == DataConfig::Format::kCriteo);
  CHECK(config.features.size() == 26);
  CHECK(config.features.back().column == "C26");
  CHECK(config.embedding_width() == 26 * 16);

  // Its dense columns may serve as IDs, and there are no others.
  std::vector<std::string> overrides = kExistingData;
  overrides.emplace_back("features.0.column=I13");
  CHECK(Load("config/criteo-synthetic.yaml", overrides).features[0].column == "I13");
  overrides.back() = "features.0.column=C27";
  const Status status = LoadClusterConfig("config/criteo-synthetic.yaml", overrides).status();
  CHECK(status.message() ==
        "--set features.0.column=C27: features.0.column: no column is named 'C27'; "
        "the nearest id or dense column is 'C2'");
}

TEST_CASE("Criteo's ids have no weights, and are no numbers", "[config]") {
  const auto error = [](const std::string& column, const std::string& key,
                        const std::string& value) {
    std::vector<std::string> overrides = kExistingData;
    overrides.insert(overrides.end(), {"features.0.column=" + column, "features.0." + key + value,
                                       "features.0.pooling=weighted_sum"});
    const Status status = LoadClusterConfig("config/criteo-synthetic.yaml", overrides).status();
    return std::string(status.message());
  };
  CHECK_THAT(error("C1", "weight_separator=", "\":\""),
             Catch::EndsWith("features.0.weight_separator: the criteo format has no weights; "
                             "use another character between values and weights, or omit weights"));
  CHECK_THAT(
      error("C1", "quantiles=", "4"),
      Catch::EndsWith("features.0.quantiles: column 'C1' contains ids, not numbers; choose one "
                      "of I1 to I13, or leave it out"));
  CHECK_THAT(error("C1", "boundaries=", "[1]"), Catch::Contains("features.0.boundaries: column"));
  CHECK(error("I1", "boundaries=", "[1]").empty());
  CHECK(error("I1", "quantiles=", "4").empty());
}

std::vector<std::string> Towers(const std::string& path) {
  const ClusterConfig config = Load(path, kExistingData);
  std::vector<std::string> towers;
  for (const TowerConfig& tower : config.model.towers) {
    towers.push_back(absl::StrCat(tower.name, ": ", Describe(tower)));
  }
  return towers;
}

TEST_CASE("The examples of models by name are the towers that they stand for", "[config]") {
  CHECK(Towers("config/adult-dlrm.yaml") ==
        std::vector<std::string>{"bottom: dense > 32 > relu > 8 > relu ",
                                 "interaction: bottom embeddings > dot 8 ",
                                 "top: bottom interaction > 64 > relu > 32 > relu > 1 "});
  CHECK(Towers("config/adult-dcn-v2.yaml") ==
        std::vector<std::string>{
            "top: dense embeddings > cross 16 > cross 16 > 64 > relu > 32 > relu > 1 "});
  const std::string wide =
      "embeddings.education_occupation embeddings.gender_relationship "
      "embeddings.workclass_occupation ";
  std::string all;
  for (const std::string& name : kCategories) absl::StrAppend(&all, "embeddings.", name, " ");
  for (const std::string& name : kNumbers) absl::StrAppend(&all, "embeddings.", name, "_id ");
  CHECK(Towers("config/adult-wide-deep.yaml") ==
        std::vector<std::string>{absl::StrCat("wide: ", wide, "> sum "),
                                 absl::StrCat("deep: dense ", all, "> 64 > relu > 32 > relu > 1 "),
                                 "top: wide deep > sum "});
  std::string weights;
  for (const std::string& name : kCategories) {
    absl::StrAppend(&weights, "embeddings.", name, "_weight ");
  }
  for (const std::string& name : kNumbers) {
    absl::StrAppend(&weights, "embeddings.", name, "_weight ");
  }
  CHECK(Towers("config/adult-deepfm.yaml") ==
        std::vector<std::string>{absl::StrCat("first_order: ", weights, "> sum "),
                                 absl::StrCat("second_order: ", all, "> fm 8 "),
                                 absl::StrCat("deep: dense ", all, "> 64 > relu > 32 > relu > 1 "),
                                 "numbers: dense > 1 ",
                                 "top: first_order second_order deep numbers > sum "});
}

TEST_CASE("Every configuration is parsed again from its source", "[config]") {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("config")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const bool streams = entry.path().filename() == "kafka.yaml";
    const std::string epochs = streams ? "0" : "7";
    std::vector<std::string> overrides = streams ? std::vector<std::string>() : kExistingData;
    overrides.insert(overrides.end(), {"training.epochs=" + epochs, "checkpoint={directory: model}",
                                       "embedding_ps.instances.0.address=[::1]:7601"});
    const ClusterConfig config = Load(entry.path(), overrides);
    const ConfigSource& source = config.source;
    const StatusOr<ClusterConfig> again =
        ParseClusterConfig(source.text, source.path, source.overrides);
    INFO(entry.path() << ": " << again.status().ToString());
    REQUIRE(again.ok());
    CHECK(again->settings == config.settings);
    CHECK(again->settings.at("training.epochs") == epochs);
    CHECK(ClusterAgreement(*again) == ClusterAgreement(config));
    CHECK(TrainingAgreement(*again) == TrainingAgreement(config));
    // Paths do not depend on the working directory.
    const std::filesystem::path folder = std::filesystem::current_path() / "config";
    if (!streams) CHECK(again->data.train == std::vector<std::string>{folder / "adult.yaml"});
    CHECK(again->checkpoint.directory == folder / "model");
    CHECK(again->source.path == source.path);
  }
  CHECK(files >= 10);
}

TEST_CASE("The data of the Adult configurations is committed", "[config]") {
  CHECK(Load("config/adult.yaml", {}).data.train ==
        std::vector<std::string>{"config/data/adult/adult.train.csv.zst"});
  CHECK(Load("config/adult-persia.yaml", {}).data.test ==
        std::vector<std::string>{"config/data/adult/adult.test.csv.zst"});
}

TEST_CASE("criteo-synthetic.yaml lacks only the data that datagen writes", "[config]") {
  const StatusOr<ClusterConfig> criteo = LoadClusterConfig("config/criteo-synthetic.yaml", {});
  if (criteo.ok()) SIMURGH_SKIP("datagen has written the data of config/criteo-synthetic.yaml");
  const std::vector<std::string> errors = absl::StrSplit(criteo.status().message(), '\n');
  for (const std::string& error : errors) {
    INFO(error);
    CHECK(error.starts_with("config/criteo-synthetic.yaml:"));
    CHECK(error.find("cannot read 'config/data/criteo-synthetic/") != std::string::npos);
  }
}

TEST_CASE("Daemons of the two Adult clusters, on the same ports, refuse each other", "[config]") {
  const ClusterConfig adult = Load("config/adult.yaml", kExistingData);
  const ClusterConfig persia = Load("config/adult-persia.yaml", kExistingData);
  CHECK(ClusterAgreement(adult) != ClusterAgreement(persia));
}

}  // namespace simurgh
