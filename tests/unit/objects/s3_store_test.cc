// The client of S3's protocol, against a real server.

#include "objects/s3_store.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/check.h"
#include "base/random.h"
#include "tests/support/environment.h"
#include "tests/support/s3_server.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/web_server.h"

namespace simurgh {
namespace {

using Catch::Contains;
using Condition = ObjectStore::Condition;
using testing::S3Server;

constexpr size_t kPart = 5 << 20;

const S3Server& TheServer() {
  static const TemporaryFolder folder;
  static const S3Server server(folder.path());
  return server;
}

std::unique_ptr<ObjectStore> Open(const std::string& uri) {
  auto store = OpenS3(uri, std::chrono::seconds(10));
  SIMURGH_CHECK(store.ok()) << store.status();
  return *std::move(store);
}

std::string TextOf(ObjectStore& store, const std::string& key) {
  const auto object = store.Get(key, 1 << 30);
  REQUIRE(object.ok());
  REQUIRE(object->has_value());
  CHECK((*object)->whole == (*object)->bytes.size());
  return (*object)->bytes;
}

std::string RandomText(size_t size, uint64_t seed) {
  Random random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Uploads parts from the last to the first.
void UploadAll(ObjectStore& store, const std::string& key, const std::string& text) {
  const auto upload = store.BeginUpload(key);
  REQUIRE(upload.ok());
  const size_t count = (text.size() + kPart - 1) / kPart;
  std::vector<std::string> tags(count);
  for (size_t i = count; i-- > 0;) {
    auto tag = store.PutPart(*upload, i + 1, std::string_view(text).substr(i * kPart, kPart));
    REQUIRE(tag.ok());
    tags[i] = *std::move(tag);
  }
  REQUIRE(store.Complete(*upload, tags, text.size()).ok());
}

TEST_CASE("Objects of a server are written, read, listed and removed") {
  const auto store = Open(TheServer().Uri("/one"));
  const std::string text = RandomText(300'000, 1);
  const std::vector<std::string> keys = {"a", "b/c d+e", "b/ä=&?#%25", "b/f/g"};
  for (const std::string& key : keys) REQUIRE(store->Put(key, text + key, {}).ok());
  REQUIRE(store->Put("empty", "", {}).ok());
  for (const std::string& key : keys) CHECK(TextOf(*store, key) == text + key);
  CHECK(TextOf(*store, "empty").empty());

  const auto all = store->List("", true);
  REQUIRE(all.ok());
  CHECK(all->keys == std::vector<std::string>{"a", "b/c d+e", "b/f/g", "b/ä=&?#%25", "empty"});
  const auto top = store->List("", false);
  CHECK(top->keys == std::vector<std::string>{"a", "empty"});
  CHECK(top->folders == std::vector<std::string>{"b/"});
  CHECK(store->List("b/", false)->folders == std::vector<std::string>{"b/f/"});
  CHECK(store->List("none/", true)->keys.empty());

  const auto part = store->Get("a", 100);
  CHECK((*part)->bytes == text.substr(0, 100));
  CHECK((*part)->whole == text.size() + 1);
  CHECK_FALSE((*store->Get("a", 100, (*part)->tag)).has_value());
  std::string middle(1'000, '\0');
  REQUIRE(store->Read("a", "", 200'000, std::as_writable_bytes(std::span(middle))).ok());
  CHECK(middle == text.substr(200'000, 1'000));
  CHECK(absl::IsDataLoss(
      store->Read("a", "", text.size(), std::as_writable_bytes(std::span(middle)))));
  CHECK(absl::IsNotFound(store->Read("none", "", 0, std::as_writable_bytes(std::span(middle)))));
  CHECK(absl::IsNotFound(store->Get("none", 10).status()));
  CHECK(store->Read("a", (*part)->tag, 0, std::as_writable_bytes(std::span(middle))).ok());
  CHECK(absl::IsAborted(store->Read("a", "\"00000000000000000000000000000000\"", 0,
                                    std::as_writable_bytes(std::span(middle)))));

  for (const std::string& key : keys) REQUIRE(store->Remove(key).ok());
  REQUIRE(store->Remove("none").ok());
  CHECK(store->List("", true)->keys == std::vector<std::string>{"empty"});
}

TEST_CASE("A listing of more objects than an answer has is whole") {
  const auto store = Open(TheServer().Uri("/many"));
  constexpr int kObjects = 1'100;  // An answer has at most 1,000.
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = t; i < kObjects; i += 4) {
          SIMURGH_CHECK(store->Put("k" + std::to_string(10'000 + i), "", {}).ok());
        }
      });
    }
  }
  const auto listing = store->List("", false);
  REQUIRE(listing.ok());
  REQUIRE(listing->keys.size() == kObjects);
  CHECK(listing->keys.back() == "k11099");
}

// The parameters of a request's target, decoded.
std::map<std::string, std::string> ParametersOf(const std::string& target) {
  std::map<std::string, std::string> parameters;
  std::string name;
  std::string text;
  for (size_t i = target.find('?') + 1; i <= target.size(); ++i) {
    if (i == target.size() || target[i] == '&') {
      parameters[name] = text;
      name = text = "";
    } else if (target[i] == '=') {
      name = std::exchange(text, "");
    } else if (target[i] == '%') {
      unsigned char byte = 0;
      std::from_chars(target.data() + i + 1, target.data() + i + 3, byte, 16);
      text += static_cast<char>(byte);
      i += 2;
    } else {
      text += target[i];
    }
  }
  return parameters;
}

// A bucket whose listings are pages of three names, each with a token with a +. repeats_folder:
// whether a page after a folder begins with this folder.
class PagedBucket {
 public:
  PagedBucket(std::vector<std::string> keys, bool repeats_folder)
      : keys_(std::move(keys)),
        repeats_folder_(repeats_folder),
        server_([this](const testing::SeenRequest& seen) { return ListingOf(seen.target); }) {
    std::ranges::sort(keys_);
    environment_.Set("AWS_ACCESS_KEY_ID", "key");
    environment_.Set("AWS_SECRET_ACCESS_KEY", "secret");
    environment_.Set("no_proxy", "127.0.0.1");
  }

  std::unique_ptr<ObjectStore> store() const {
    return Open("s3://bucket/p?endpoint_override=" + server_.url().substr(7) + "&scheme=http");
  }
  bool HasPlusInRequests() const {
    return std::ranges::any_of(server_.requests(), [](const testing::SeenRequest& seen) {
      return seen.target.find("%2B") != std::string::npos;
    });
  }

 private:
  testing::RawAnswer ListingOf(const std::string& target) const {
    auto query = ParametersOf(target);
    const std::string token = query["continuation-token"];
    const std::string after = token.empty() ? query["start-after"] : token.substr(1);
    const bool repeats = repeats_folder_ && token.empty();
    std::string body = "<ListBucketResult>";
    std::string last;
    int count = 0;
    for (const std::string& key : keys_) {
      if (!key.starts_with(query["prefix"]) || key <= after) continue;
      const size_t slash =
          query["delimiter"].empty() ? std::string::npos : key.find('/', query["prefix"].size());
      const bool is_folder = slash != std::string::npos;
      const std::string name = is_folder ? key.substr(0, slash + 1) : key;
      if (name == last || (name == after && !repeats)) continue;
      if (++count > 3) {
        body += "<IsTruncated>true</IsTruncated><NextContinuationToken>+" + last +
                "</NextContinuationToken>";
        break;
      }
      last = name;
      body += is_folder ? "<CommonPrefixes><Prefix>" + name + "</Prefix></CommonPrefixes>"
                        : "<Contents><Key>" + name + "</Key></Contents>";
    }
    return testing::Answer(200, body + "</ListBucketResult>");
  }

  std::vector<std::string> keys_;
  const bool repeats_folder_;
  testing::Environment environment_;
  testing::WebServer server_;
};

TEST_CASE("A listing continues after a name if the token has a +") {
  const bool repeats_folder = GENERATE(false, true);
  const PagedBucket bucket({"p/a", "p/b+1", "p/b+2", "p/b/1", "p/b/2", "p/c", "p/d/1", "p/d/2",
                            "p/e+", "p/f/1", "p/g/1", "p/g/2", "p/h", "p/ä", "q"},
                           repeats_folder);
  const auto all = bucket.store()->List("", true);
  REQUIRE(all.ok());
  CHECK(all->keys == std::vector<std::string>{"a", "b+1", "b+2", "b/1", "b/2", "c", "d/1", "d/2",
                                              "e+", "f/1", "g/1", "g/2", "h", "ä"});
  CHECK(all->folders.empty());
  const auto top = bucket.store()->List("", false);
  REQUIRE(top.ok());
  CHECK(top->keys == std::vector<std::string>{"a", "b+1", "b+2", "c", "e+", "h", "ä"});
  CHECK(top->folders == std::vector<std::string>{"b/", "d/", "f/", "g/"});
  CHECK_FALSE(bucket.HasPlusInRequests());
}

TEST_CASE("A page of names with a + continues by its token, or is refused") {
  const std::vector<std::string> keys = {"+1", "+2", "+3", "+4", "+5", "a"};
  std::vector<std::string> objects;
  for (const std::string& key : keys) objects.push_back("p/" + key);
  const PagedBucket bucket(objects, /*repeats_folder=*/false);
  const auto all = bucket.store()->List("", true);
  if (all.ok()) {
    CHECK(all->keys == keys);
  } else {
    CHECK(absl::IsFailedPrecondition(all.status()));
    CHECK_THAT(std::string(all.status().message()),
               Contains("s3://bucket/p: ") && Contains("use names without +"));
    CHECK_FALSE(bucket.HasPlusInRequests());
  }
}

TEST_CASE("Only one of several conditional writes has its effect") {
  const auto store = Open(TheServer().Uri("/conditions"));
  const auto first = store->Put("n", "0", {.kind = Condition::Kind::kMissing, .tag = {}});
  REQUIRE(first.ok());
  CHECK(absl::IsAborted(
      store->Put("n", "x", {.kind = Condition::Kind::kMissing, .tag = {}}).status()));
  CHECK(absl::IsAborted(
      store->Put("none", "x", {.kind = Condition::Kind::kTag, .tag = *first}).status()));
  constexpr int kThreads = 6;
  constexpr int kEach = 20;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([] {
        const auto own = Open(TheServer().Uri("/conditions"));
        for (int done = 0; done < kEach;) {
          const auto seen = own->Get("n", 100);
          SIMURGH_CHECK(seen.ok());
          const int value = std::stoi((*seen)->bytes);
          const auto put = own->Put("n", std::to_string(value + 1),
                                    {.kind = Condition::Kind::kTag, .tag = (*seen)->tag});
          SIMURGH_CHECK(put.ok() || absl::IsAborted(put.status())) << put.status();
          done += put.ok() ? 1 : 0;
        }
      });
    }
  }
  CHECK(TextOf(*store, "n") == std::to_string(kThreads * kEach));
}

TEST_CASE("An object is uploaded in parts, in any order") {
  const auto store = Open(TheServer().Uri("/parts"));
  const std::string text = RandomText(2 * kPart + 17, 2);
  UploadAll(*store, "large", text);
  CHECK(TextOf(*store, "large") == text);
  std::string middle(kPart, '\0');
  REQUIRE(store->Read("large", "", kPart / 2, std::as_writable_bytes(std::span(middle))).ok());
  CHECK(middle == text.substr(kPart / 2, kPart));

  const auto open = store->BeginUpload("open/x");
  REQUIRE(open.ok());
  const auto uploads = store->Uploads();
  REQUIRE(uploads.ok());
  REQUIRE(uploads->size() == 1);
  CHECK(uploads->front().key == "open/x");
  REQUIRE(store->Abort(uploads->front()).ok());
  REQUIRE(store->Abort(*open).ok());
  CHECK(store->Uploads()->empty());
  CHECK(absl::IsNotFound(store->Get("open/x", 10).status()));
}

TEST_CASE("Requests that the network disturbs are tried again") {
  const S3Server& server = TheServer();
  const auto store = Open(server.FaultyUri("/faults"));
  const std::string text = RandomText(100'000, 3);
  const auto kind = GENERATE(as<std::string>(), "error", "lost", "cut");
  CAPTURE(kind);
  server.MakeFaults(kind, 2);
  REQUIRE(store->Put("a", text, {}).ok());
  server.MakeFaults(kind, 2);
  CHECK(TextOf(*store, "a") == text);
  server.MakeFaults(kind, 2);
  CHECK(store->List("", true)->keys == std::vector<std::string>{"a"});
  const auto upload = store->BeginUpload("b");
  const auto tag = store->PutPart(*upload, 1, text);
  server.MakeFaults(kind, 2);
  REQUIRE(store->Complete(*upload, std::vector{*tag}, text.size()).ok());
  CHECK(TextOf(*store, "b") == text);
  server.MakeFaults(kind, 2);
  REQUIRE(store->Remove("b").ok());
  CHECK(absl::IsNotFound(store->Get("b", 10).status()));
  server.MakeFaults("none", 0);
}

TEST_CASE("A key without the right to write is told so") {
  const auto writer = Open(TheServer().Uri("/rights"));
  REQUIRE(writer->Put("a", "text", {}).ok());
  ::setenv("AWS_ACCESS_KEY_ID", "reader", 1);
  const auto reader = Open(TheServer().Uri("/rights"));
  CHECK(TextOf(*reader, "a") == "text");
  for (const Status& refused : {reader->Put("b", "", {}).status(), reader->Remove("a"),
                                reader->BeginUpload("c").status()}) {
    CHECK(absl::IsPermissionDenied(refused));
    CHECK_THAT(std::string(refused.message()),
               Contains("AccessDenied") && Contains("its rights to list, read, write and remove"));
  }
  ::setenv("AWS_ACCESS_KEY_ID", "key", 1);
}

TEST_CASE("A store that does not answer, or refuses, is named with the reason") {
  const S3Server& server = TheServer();
  const auto message = [](const std::string& uri, absl::StatusCode code) {
    auto store = OpenS3(uri, std::chrono::milliseconds(200));
    const Status status = store.ok() ? (*store)->Get("a", 1).status() : store.status();
    CHECK(status.code() == code);
    return std::string(status.message());
  };
  const std::string none = "s3://none/p" + server.Uri().substr(server.Uri().find('?'));
  CHECK_THAT(message(none, absl::StatusCode::kFailedPrecondition),
             Contains("s3://none/p/a: there is no bucket none"));
  CHECK_THAT(
      message("s3://b/p?endpoint_override=127.0.0.1:1&scheme=http", absl::StatusCode::kUnavailable),
      Contains("s3://b/p/a: tried for 200 ms"));
  ::setenv("AWS_SECRET_ACCESS_KEY", "another", 1);
  CHECK_THAT(
      message(server.Uri("/x"), absl::StatusCode::kPermissionDenied),
      Contains("SignatureDoesNotMatch") && Contains("check the key") && !Contains("another"));
  ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  server.MakeFaults("expired", 5);
  CHECK_THAT(message(server.FaultyUri("/x"), absl::StatusCode::kPermissionDenied),
             Contains("ExpiredToken"));
  server.MakeFaults("skewed", 5);
  CHECK_THAT(message(server.FaultyUri("/x"), absl::StatusCode::kFailedPrecondition),
             Contains("the clock of this machine is wrong"));
  // The store tells the region once, and then again the same one.
  server.MakeFaults("moved", 1);
  CHECK_THAT(message(server.FaultyUri("/x"), absl::StatusCode::kNotFound), Contains("/x/a"));
  server.MakeFaults("moved", 5);
  CHECK_THAT(message(server.FaultyUri("/x"), absl::StatusCode::kFailedPrecondition),
             Contains("another region") && Contains("AWS_REGION"));
  server.MakeFaults("none", 0);
  for (const char* uri : {"gs://b/p", "s3://", "s3://b", "s3://KEY:SECRET@b/p", "s3://b/p?x=1"}) {
    CAPTURE(uri);
    CHECK_THAT(message(uri, absl::StatusCode::kInvalidArgument), !Contains("SECRET@"));
  }
}

}  // namespace
}  // namespace simurgh
