#include "retrieval/tower_data.h"

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "retrieval/ranked_users.h"
#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Texts = std::vector<std::string>;

constexpr char kConfig[] = R"(cluster: {name: towers}
tables: [{names: [user, item, shop], dim: 4}]
data:
  train: [train.csv]
  csv: {header: true}
  columns:
    - {name: user, kind: id}
    - {name: age, kind: dense, mean: 0, stddev: 1}
    - {name: item, kind: id}
    - {name: shop, kind: id}
    - {name: click, kind: label}
model: {two_tower: {user: [user], item: [item, shop]}}
)";

// Files in a folder, and the configuration that names them.
class Files {
 public:
  Files() { Write("train.csv", "user,age,item,shop,click\nu,1,a,x,1\n"); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() + "/" + name) << text;
    return folder_.path() + "/" + name;
  }
  ClusterConfig Config(const std::vector<std::string>& overrides = {}) const {
    std::vector<std::string> all = {"data.items.files=[items.csv]", "data.items.id=item"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const auto config = ParseClusterConfig(kConfig, folder_.path() + "/c.yaml", all);
    INFO(config.status().ToString());
    REQUIRE(config.ok());
    return *config;
  }

 private:
  TemporaryFolder folder_;
};

std::string ErrorOf(const Status& status) {
  REQUIRE_FALSE(status.ok());
  return std::string(status.message());
}

TEST_CASE("Items are named once, by a file with the columns of their tower") {
  const Files files;
  files.Write("items.csv", "shop,title,item\nx,A, a \ny,B,b\n");
  const auto ids = ReadItemIds(files.Config());
  INFO(ids.status().ToString());
  REQUIRE(ids.ok());
  CHECK(ids->texts() == Texts{"a", "b"});
  CHECK(ids->Find("b") == 1);
  CHECK_FALSE(ids->Find("c").has_value());
  CHECK(ReadItemIds(files.Config({"data.items.id=title"}))->texts() == Texts{"A", "B"});

  const auto error = [&](const std::string& text) {
    files.Write("items.csv", text);
    return ErrorOf(ReadItemIds(files.Config()).status());
  };
  CHECK_THAT(error("item,shop\na,x\nb,x\na,y\n"),
             Contains("items.csv: rows 1 and 3 have the id 'a'; keep one row an item"));
  CHECK_THAT(error("item,shop\na,x\n,x\n"), Contains("row 2: the item has no id"));
  CHECK_THAT(error("item,shop\n"), Contains("items.csv: there is no item; give one row an item"));
  CHECK_THAT(error("user,age\nu,1\n"),
             Contains("items.csv:1: the header lacks columns item, shop; add them"));
  CHECK_THAT(error("item,age\na,1\n"),
             Contains("items.csv:1: the header lacks column shop; add it"));
}

TEST_CASE("Users are those of rows with a label above 0, with their first row as the query") {
  const Files files;
  files.Write("items.csv", "item,shop\na,x\nb,x\nc,y\n");
  const std::string rows =
      files.Write("rows.csv",
                  "user,age,item,shop,click\nu,1,a,x,0\nu,1,b,x,1\nv,2,c,y,1\nu,1,c,y,1\n"
                  "u,1,b,x,1\nv,3,a,x,1\nw,1,a,x,0\nu,1,gone,x,1\nu,1,gone,x,1\n");
  files.Write("train.csv", "user,age,item,shop,click\nu,1,a,x,0\nu,1,b,x,1\nw,1,b,x,1\n");
  const auto read = [&](const ClusterConfig& config) {
    const auto ids = ReadItemIds(config);
    REQUIRE(ids.ok());
    const Texts all = {rows};
    auto users = ReadRankedUsers(config, config.data, *ids, OpenLabelledRows(config, all));
    INFO(users.status().ToString());
    REQUIRE(users.ok());
    return *std::move(users);
  };
  using Items = std::vector<uint32_t>;
  // The inputs of the user's tower are user and age.
  const RankedUsers users = read(files.Config());
  REQUIRE(users.size() == 3);
  CHECK(users.items()[0].relevant == Items{1, 2});
  CHECK(users.items()[0].unknown == 1);
  CHECK(users.items()[0].seen.empty());
  CHECK(users.items()[1].relevant == Items{2});
  CHECK(users.items()[2].relevant == Items{0});
  CHECK(users.UserOf(1) == 0);
  CHECK(users.UserOf(2) == 1);
  CHECK(users.UserOf(5) == 2);
  CHECK_FALSE(users.UserOf(3).has_value());

  const RankedUsers named = read(files.Config({"data.items.user=user"}));
  REQUIRE(named.size() == 2);
  CHECK(named.items()[1].relevant == Items{0, 2});

  // Seen items are those of training rows of any label, but for the relevant ones.
  const RankedUsers unseen = read(files.Config({"data.items.exclude_seen=true"}));
  CHECK(unseen.items()[0].seen == Items{0});
  CHECK(unseen.items()[1].seen.empty());
}

TEST_CASE("Rows without a positive label or the item's column have no users") {
  const Files files;
  files.Write("items.csv", "item,shop\na,x\n");
  const Texts rows = {files.Write("rows.csv", "user,age,item,shop,click\nu,1,a,x,0\n")};
  const auto error = [&](const ClusterConfig& config) {
    ItemIds ids;
    REQUIRE(ids.Add("a").ok());
    return ErrorOf(
        ReadRankedUsers(config, config.data, ids, OpenLabelledRows(config, rows)).status());
  };
  CHECK(error(files.Config()) ==
        "evaluation: no row has a label above 0; check the files and the label column");
  CHECK_THAT(error(files.Config({"data.items.id=title"})),
             Contains("the rows to evaluate have no column 'title'"));
}

}  // namespace
}  // namespace simurgh::testing
