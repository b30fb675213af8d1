#include "config/uri.h"

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "config/serving_config.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

using Catch::Contains;

std::string ErrorOfUri(const std::string& uri) {
  const auto error = BucketPathError(uri);
  return error ? error->problem + "; " + error->remedy : "";
}

}  // namespace

TEST_CASE("Options of a URI move to the bucket", "[config]") {
  const std::string kept = "s3://b?endpoint_override=h:1&scheme=http/models/ads";
  CHECK(BucketPath("s3://b/models/ads?endpoint_override=h:1&scheme=http") == kept);
  CHECK(BucketPath("s3://b/models/ads/?endpoint_override=h:1&scheme=http") == kept);
  CHECK(BucketPath(kept) == kept);
  CHECK(BucketPath(kept + "/step-5/") == kept + "/step-5");
  CHECK(BucketPath("s3://b//m//") == "s3://b/m");
  CHECK(BucketPath("s3://b/m?region=r/step-5/") == "s3://b?region=r/m/step-5");
  CHECK(BucketPath("s3://b/m/?region=r/step-5") == "s3://b?region=r/m/step-5");
  for (const std::string& uri :
       {kept, std::string("s3://b/models/ads?scheme=http&endpoint_override=h%3A1")}) {
    const auto address = ParseBucketPath(uri);
    REQUIRE(address.ok());
    CHECK(address->bucket == "b");
    CHECK(address->key == "models/ads");
    CHECK(address->options ==
          std::map<std::string, std::string>{{"endpoint_override", "h:1"}, {"scheme", "http"}});
  }
  // Other signs of keys stay.
  CHECK(ParseBucketPath("s3://b/a b%20/ü?region=r")->key == "a b%20/ü");
}

TEST_CASE("A URI that cannot be a model's folder has an error with a remedy", "[config]") {
  CHECK(ErrorOfUri("s3://b/m") == "");
  CHECK_THAT(ErrorOfUri("gs://b/m"), Contains("gs:// is not read; use s3://BUCKET/PREFIX"));
  for (const char* uri : {"s3://b/m?endpoint_override=user:word@h:1",
                          "s3://b/m?endpoint_override=user%3Aword%40h%3A1"}) {
    CHECK_THAT(ErrorOfUri(uri), Contains("has credentials in its URI"));
    CHECK_THAT(std::string(ParseBucketPath(uri).status().message()), !Contains("word"));
  }
  CHECK_THAT(ErrorOfUri("hdfs://b/m"), Contains("hdfs:// is not read; use s3://"));
  CHECK_THAT(ErrorOfUri("file:///m"), Contains("give the path without it"));
  CHECK_THAT(ErrorOfUri("models/m"), Contains("is no URI"));
  CHECK_THAT(ErrorOfUri("s3://b"), Contains("has no folder in the bucket; use s3://BUCKET/PREFIX"));
  CHECK_THAT(ErrorOfUri("s3:///m"), Contains("has no name of a bucket"));
  CHECK_THAT(ErrorOfUri("s3://b/a/../m"), Contains("has the part '..' in its path"));
  CHECK_THAT(ErrorOfUri("s3://b/a//m"), Contains("has the part '' in its path"));
  CHECK_THAT(ErrorOfUri("s3://b/m?regoin=r"), Contains("has the unknown option 'regoin'"));
  CHECK_THAT(ErrorOfUri("s3://b/m?region"), Contains("has no value of the option 'region'"));
  CHECK_THAT(ErrorOfUri("s3://b/m?region=%2"), Contains("has no value of the option 'region'"));
  CHECK_THAT(ErrorOfUri("s3://b/m?scheme=ftp"),
             Contains("has the scheme 'ftp'; use http or https"));
  CHECK_THAT(ErrorOfUri("s3://b/m?endpoint_override=http://h:1"), Contains("use HOST:PORT"));
  const Status secret = ParseBucketPath("s3://KEY:SECRET@b/m").status();
  CHECK_THAT(std::string(secret.message()),
             Contains("has credentials in its URI") && !Contains("SECRET@"));
}

TEST_CASE("The model of a checkpoint's path", "[config]") {
  for (const char* name :
       {"", "/step-5", "/step-5.tmp-3", "/step-5.retry-1.tmp-3", "/step-5.damaged"}) {
    CHECK(ModelFolderOf(std::string("s3://b/m") + name) == "s3://b/m");
  }
  for (const char* path : {"s3://b/step-", "s3://b/steps", "s3://b/m/step-a", "s3://b/step-5/m"}) {
    CHECK(ModelFolderOf(path) == path);
  }
}

TEST_CASE("An absolute folder has no slash at its end, and a URI its own form", "[config]") {
  const std::string here = std::filesystem::current_path().string();
  CHECK(AbsoluteFolder("a/../m/") == here + "/m");
  CHECK(AbsoluteFolder("/m//x/.") == "/m/x");
  CHECK(AbsoluteFolder("/") == "/");
  CHECK(AbsoluteFolder(".") == here);
  CHECK(AbsoluteFolder("s3://b/m/?region=r") == "s3://b?region=r/m");
}

TEST_CASE("Folders of models can be in a bucket, other files cannot", "[config]") {
  const auto load = [](const std::string& one) {
    return ParseClusterConfig(kSample, kSamplePath, {one});
  };
  const auto config = load("checkpoint.directory='s3://b/m/?region=r'");
  REQUIRE(config.status() == absl::OkStatus());
  CHECK(config->checkpoint.directory == "s3://b?region=r/m");
  CHECK(load("checkpoint.start_from='s3://b/m'")->checkpoint.start_from == "s3://b/m");
  const auto serving =
      LoadServingConfig("", {"serving.model='s3://b/m'", "serving.rank_model='s3://b/r/'"});
  REQUIRE(serving.status() == absl::OkStatus());
  CHECK(serving->model == "s3://b/m");
  CHECK(serving->rank_model == "s3://b/r");
  CHECK(LoadServingConfig("", {"serving.model='s3://b/m'", "serving.rows=mapped"}).ok());
  const auto message = [&](const std::string& one) {
    return std::string(load(one).status().message());
  };
  CHECK_THAT(message("checkpoint.directory='gs://b/m'"),
             Contains("checkpoint.directory: gs:// is not read; use s3://BUCKET/PREFIX"));
  std::string text = kSample;
  text.replace(text.find("models/sample"), std::string("models/sample").size(),
               "'s3://KEY:SECRET@b/m'");
  CHECK_THAT(std::string(ParseClusterConfig(text, kSamplePath, {}).status().message()),
             Contains("checkpoint.directory: has credentials in its URI") && !Contains("SECRET@"));
  CHECK_THAT(message("training.tensorboard='s3://b/events'"),
             Contains("training.tensorboard: a URI, which is not read here; give a path on this "
                      "machine"));
}

}  // namespace simurgh
