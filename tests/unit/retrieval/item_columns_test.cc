#include "retrieval/item_columns.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Names = std::vector<std::string>;

ClusterConfig ConfigOf(const std::string& format, const std::string& item) {
  const auto config = ParseClusterConfig(
      absl::StrCat(R"(cluster: {name: shop}
tables: [{names: [user, item, shop], dim: 4}]
features: [{name: user}, {name: item}, {name: shop}]
data:
  format: )",
                   format, R"(
  train: [train.x]
  columns: [{name: user, kind: id}, {name: item, kind: id}, {name: shop, header_name: "Shop ID", kind: id}, {name: stock, kind: skip}, {name: click, kind: label}]
model: {two_tower: {user: )",
                   item == "item" ? "[user, shop]" : "[user]", ", item: [", item, R"(], dim: 4}}
)"),
      "shop.yaml", {}, InputFiles::kIgnore);
  INFO(config.status());
  REQUIRE(config.ok());
  return *config;
}

TEST_CASE("The columns of an item file have the names of the data, or their own") {
  const TemporaryFolder folder;
  const ClusterConfig csv = ConfigOf("csv", "item, shop");
  CHECK(
      ItemColumnsIn(csv, folder.Write("a.csv", "ITEM,shop id,click,\"Color, or so\",\n")).value() ==
      Names{"item", "shop", "Color, or so"});
  CHECK(ItemColumnsIn(csv, folder.Write("empty.csv", "")).value().empty());
  CHECK_THAT(std::string(ItemColumnsIn(csv, folder.Path("no.csv")).status().message()),
             Contains("no.csv"));
  const ClusterConfig json = ConfigOf("json", "item, shop");
  CHECK(ItemColumnsIn(json, folder.Write("a.jsonl", R"({"item": "a", "tags": ["x"], "stock": 1}
{"price": 1}
)"))
            .value() == Names{"item", "tags", "stock"});
  CHECK_THAT(std::string(ItemColumnsIn(json, folder.Write("b.jsonl", "x\n")).status().message()),
             Contains("b.jsonl:1") && Contains("not JSON"));
}

TEST_CASE("An item is named by the given column, or the only id column of its tower") {
  CHECK(ItemIdColumn(ConfigOf("csv", "item"), "").value() == "item");
  CHECK(ItemIdColumn(ConfigOf("csv", "item, shop"), "sku").value() == "sku");
  CHECK_THAT(std::string(ItemIdColumn(ConfigOf("csv", "item, shop"), "").status().message()),
             Contains("item, shop; name the one whose text names an item in serving.item_id"));
}

TEST_CASE("A column of items has each text once") {
  const ItemColumn column("color", {"red", "blue", "red", "", "blue"});
  CHECK(column.name == "color");
  CHECK(column.values == Names{"red", "blue", ""});
  CHECK(column.text(2) == "red");
  CHECK(column.text(4) == "blue");
  CHECK(ItemColumn("none", {}).codes.empty());
}

}  // namespace
}  // namespace simurgh::testing
