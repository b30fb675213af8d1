#include "predict/remote_reader.h"

#include <cstring>
#include <map>
#include <random>
#include <utility>

#include <catch2/catch.hpp>

#include "predict/row_encoding.h"

namespace simurgh::testing {
namespace {

const std::vector<TableConfig> kTables = {
    {.name = "a", .dim = 4}, {.name = "b", .dim = 3, .precision = RowPrecision::kBf16}};

using Key = std::pair<uint32_t, uint64_t>;  // Table and id.
using Rows = std::map<Key, uint64_t>;       // The version of each row's last change.

std::vector<std::byte> BytesOf(const Key& key, uint64_t changed) {
  std::vector<std::byte> row(StoredEncoding(kTables[key.first]).row_bytes());
  std::mt19937_64 random(key.first * 1'000'003 + key.second * 7'919 + changed);
  for (std::byte& byte : row) byte = static_cast<std::byte>(random());
  return row;
}

// Servers with all versions, which count the ids that they are asked for.
class FakeServers : public RemoteRows {
 public:
  explicit FakeServers(uint32_t servers) : servers_(servers) {}

  uint32_t servers() const override { return servers_; }
  StatusOr<std::vector<VersionName>> Use(std::span<const VersionName> /*versions*/) override {
    return std::vector<VersionName>();
  }
  std::string WhoLacks(const VersionName& /*version*/) override { return ""; }
  Status Read(uint64_t checksum, std::span<const RowRead> reads,
              std::span<RowAnswer> answers) override {
    for (uint32_t server = 0; server < servers_; ++server) {
      const RowShare share(server, servers_);
      const RowRead& read = reads[server];
      auto bytes = std::make_shared<std::vector<std::byte>>();
      RowAnswer& answer = answers[server];
      answer.present.assign((read.ids.size() + 7) / 8, 0);
      size_t id = 0;
      for (const RowRead::Group& group : read.groups) {
        for (uint32_t i = 0; i < group.ids; ++i, ++id) {
          REQUIRE(share.Has(read.ids[id]));
          const Key key(group.table, read.ids[id]);
          asked[key]++;
          const auto row = versions.at(checksum).find(key);
          if (row == versions.at(checksum).end()) continue;
          answer.present[id / 8] |= static_cast<uint8_t>(1U << (id % 8));
          const std::vector<std::byte> own = BytesOf(key, row->second);
          bytes->insert(bytes->end(), own.begin(), own.end());
        }
      }
      REQUIRE(id == read.ids.size());
      if (cut > 0 && !bytes->empty()) bytes->resize(bytes->size() - cut);
      answer.rows = *bytes;
      answer.owner = bytes;
    }
    return absl::OkStatus();
  }
  void OnCache(uint64_t more_hits, uint64_t more_misses) override {
    hits += more_hits;
    misses += more_misses;
  }

  std::map<uint64_t, Rows> versions;  // By checksum.
  std::map<Key, int> asked;
  uint64_t hits = 0;
  uint64_t misses = 0;
  size_t cut = 0;  // Bytes that an answer lacks.

 private:
  const uint32_t servers_;
};

// Reads ids of both tables, some of them in two lists, and compares.
void ReadAndCompare(RemoteReader& reader, const FakeServers& servers, uint64_t checksum,
                    const RowChanges& changes, std::mt19937_64& random, uint64_t id_count) {
  std::vector<std::pair<uint32_t, std::vector<uint64_t>>> ids = {{1, {}}, {0, {}}, {1, {}}};
  for (auto& [table, own] : ids) {
    for (uint64_t id = random() % 3; id < id_count; id += 1 + random() % 5) own.push_back(id);
  }
  std::vector<std::vector<const std::byte*>> found;
  std::vector<RemoteReader::List> lists;
  for (const auto& [table, own] : ids) found.emplace_back(own.size());
  for (size_t i = 0; i < ids.size(); ++i) lists.push_back({ids[i].first, ids[i].second, found[i]});
  REQUIRE(reader.Read(checksum, changes, lists) == absl::OkStatus());
  const Rows& rows = servers.versions.at(checksum);
  for (const RemoteReader::List& list : lists) {
    for (size_t i = 0; i < list.ids.size(); ++i) {
      const Key key(list.table, list.ids[i]);
      CAPTURE(checksum, key.first, key.second);
      const auto row = rows.find(key);
      REQUIRE((list.found[i] != nullptr) == (row != rows.end()));
      if (row == rows.end()) continue;
      const std::vector<std::byte> wanted = BytesOf(key, row->second);
      REQUIRE(std::memcmp(list.found[i], wanted.data(), wanted.size()) == 0);
    }
  }
}

TEST_CASE("Rows of servers are those of the version, over deltas, full ones and roll-backs") {
  std::mt19937_64 random(GENERATE(range(1, 13)));
  const auto hot_row_bytes = GENERATE(size_t{0}, size_t{3'000}, size_t{1} << 20);
  CAPTURE(hot_row_bytes);
  constexpr uint64_t kIds = 120;
  FakeServers servers(1 + static_cast<uint32_t>(random() % 3));
  RemoteReader reader(servers, kTables, VectorPrecision::kF32, hot_row_bytes);
  std::map<uint64_t, RowChanges> changes;
  std::vector<uint64_t> order = {1};
  for (uint64_t id = 0; id < kIds; id += 2) {
    servers.versions[1][{0, id}] = 1;
    servers.versions[1][{1, id}] = 1;
  }
  servers.SetCurrent(1);
  for (uint64_t version = 2; version < 60; ++version) {
    const uint64_t before = order.back();
    Rows rows = servers.versions[before];
    ChangedIds ids(kTables.size());
    const bool is_full = random() % 8 == 0;
    for (uint64_t i = random() % 30; i > 0; --i) {
      const Key key(static_cast<uint32_t>(random() % 2), random() % kIds);
      if (random() % 3 == 0) {
        rows.erase(key);
      } else {
        rows[key] = version;
      }
      ids[key.first].push_back(key.second);
    }
    servers.versions[version] = std::move(rows);
    if (!is_full) changes[version] = changes[before].With(before, std::move(ids));
    order.push_back(version);
    // Some versions are passed over, or checked before they are current.
    ReadAndCompare(reader, servers, version, changes[version], random, kIds);
    if (random() % 4 == 0) continue;
    servers.SetCurrent(version);
    for (uint64_t reads = random() % 4; reads > 0; --reads) {
      ReadAndCompare(reader, servers, version, changes[version], random, kIds);
      ReadAndCompare(reader, servers, before, changes[before], random, kIds);
    }
    if (random() % 10 == 0) {  // A roll-back. The next version continues from there.
      order.resize(1 + random() % order.size());
      servers.SetCurrent(order.back());
      ReadAndCompare(reader, servers, order.back(), changes[order.back()], random, kIds);
    }
  }
  if (hot_row_bytes == 0) CHECK(servers.hits == 0);
  if (hot_row_bytes >= size_t{1} << 20) CHECK(servers.hits > 1'000);
}

TEST_CASE("A delta drops the rows that it names, and no others") {
  FakeServers servers(2);
  RemoteReader reader(servers, kTables, VectorPrecision::kF32, 1 << 20);
  const std::vector<uint64_t> ids = {1, 2, 3, 4, 5};
  for (const uint64_t id : {1, 2, 3}) servers.versions[1][{0, id}] = 1;
  servers.versions[2] = servers.versions[1];
  servers.versions[2][{0, 2}] = 2;
  servers.versions[2].erase({0, 3});
  servers.versions[2][{0, 4}] = 2;  // Had no row.
  std::vector<const std::byte*> found(ids.size());
  const RemoteReader::List list{0, ids, found};
  servers.SetCurrent(1);
  REQUIRE(reader.Read(1, {}, {&list, 1}) == absl::OkStatus());
  servers.asked.clear();
  REQUIRE(reader.Read(1, {}, {&list, 1}) == absl::OkStatus());
  CHECK(servers.asked.empty());
  servers.SetCurrent(2);
  const RowChanges changes = RowChanges().With(1, {{2, 3, 4}, {}});
  REQUIRE(reader.Read(2, changes, {&list, 1}) == absl::OkStatus());
  CHECK(servers.asked == std::map<Key, int>{{{0, 2}, 1}, {{0, 3}, 1}, {{0, 4}, 1}});
  CHECK(found[1] != nullptr);
  CHECK(found[2] == nullptr);
  CHECK(found[3] != nullptr);
  // Another version passes by.
  servers.asked.clear();
  REQUIRE(reader.Read(1, {}, {&list, 1}) == absl::OkStatus());
  CHECK(servers.asked.size() == 5);
  CHECK(found[2] != nullptr);
  servers.asked.clear();
  REQUIRE(reader.Read(2, changes, {&list, 1}) == absl::OkStatus());
  CHECK(servers.asked.empty());
}

TEST_CASE("Changes are known for some versions back, and bounded") {
  RowChanges changes;
  for (uint64_t version = 1; version < 40; ++version) changes = changes.With(version, {{version}});
  std::vector<uint64_t> ids;
  const auto collect = [&](uint32_t /*table*/, uint64_t id) { ids.push_back(id); };
  CHECK_FALSE(changes.Since(20, collect));
  CHECK(ids.empty());
  CHECK(changes.Since(37, collect));
  CHECK(ids == std::vector<uint64_t>{39, 38, 37});
  // Too many ids: only the newest ones.
  changes = changes.With(40, {std::vector<uint64_t>(2'000'000)});
  CHECK_FALSE(changes.Since(39, collect));
  CHECK(changes.Since(40, collect));
}

TEST_CASE("An answer of another length is an error") {
  FakeServers servers(1);
  RemoteReader reader(servers, kTables, VectorPrecision::kF32, 1 << 20);
  servers.versions[1][{0, 1}] = 1;
  servers.SetCurrent(1);
  servers.cut = 1;
  const std::vector<uint64_t> ids = {1};
  std::vector<const std::byte*> found(1);
  const RemoteReader::List list{0, ids, found};
  CHECK(reader.Read(1, {}, {&list, 1}).code() == absl::StatusCode::kInternal);
  // It was not kept.
  servers.cut = 0;
  REQUIRE(reader.Read(1, {}, {&list, 1}) == absl::OkStatus());
  CHECK(found[0] != nullptr);
}

}  // namespace
}  // namespace simurgh::testing
