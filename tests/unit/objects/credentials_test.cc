#include "objects/credentials.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include <catch2/catch.hpp>

#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/web_server.h"

namespace simurgh {
namespace {

using Catch::Contains;
using std::chrono::minutes;
using testing::Answer;
using testing::Environment;
using testing::RawAnswer;
using testing::SeenRequest;
using testing::WebServer;
using TimePoint = CredentialChain::Clock::time_point;

// Each secret of these tests begins with this.
constexpr char kSecret[] = "SECRET-";

std::string TimeText(TimePoint time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromChrono(time), absl::UTCTimeZone());
}

std::string KeyJson(const std::string& id, TimePoint expires, const char* token = "Token") {
  return absl::StrCat(R"({"Version": 1, "Code": "Success", "AccessKeyId": ")", id,
                      R"(", "SecretAccessKey": "SECRET-)", id, R"(", ")", token,
                      R"(": "SECRET-token-)", id, R"(", "Expiration": ")", TimeText(expires),
                      R"("})");
}

AccessKey KeyOf(const std::string& id) {
  return {id, absl::StrCat("SECRET-", id), absl::StrCat("SECRET-token-", id)};
}

// The place of a process that searches a key: an environment without any, an empty home folder, a
// clock, and a server for all services, whose answers a test sets.
struct Place {
  Place() : server([this](const SeenRequest& seen) { return answer(seen); }) {
    for (const char* const name : {"AWS_ACCESS_KEY_ID",
                                   "AWS_SECRET_ACCESS_KEY",
                                   "AWS_SESSION_TOKEN",
                                   "AWS_WEB_IDENTITY_TOKEN_FILE",
                                   "AWS_ROLE_ARN",
                                   "AWS_ROLE_SESSION_NAME",
                                   "AWS_PROFILE",
                                   "AWS_SHARED_CREDENTIALS_FILE",
                                   "AWS_CONFIG_FILE",
                                   "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                   "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                   "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                   "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                   "AWS_EC2_METADATA_DISABLED",
                                   "AWS_ENDPOINT_URL",
                                   "AWS_REGION",
                                   "AWS_DEFAULT_REGION",
                                   "AWS_CA_BUNDLE",
                                   "http_proxy",
                                   "all_proxy",
                                   "ALL_PROXY"}) {
      environment.Set(name, std::nullopt);
    }
    environment.Set("HOME", home.path());
    environment.Set("AWS_ENDPOINT_URL_STS", server.url());
    environment.Set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url());
    REQUIRE(::mkdir(home.Path(".aws").c_str(), 0700) == 0);
    auto made = WebClient::Create();
    INFO(made.status().ToString());
    REQUIRE(made.ok());
    web = *std::move(made);
    chain = std::make_unique<CredentialChain>(*web, [this] { return now; });
  }

  void WriteCredentials(const std::string& text) { home.Write(".aws/credentials", text); }
  void WriteConfig(const std::string& text) { home.Write(".aws/config", text); }

  void SetIdentity() {
    environment.Set("AWS_WEB_IDENTITY_TOKEN_FILE", home.Write("token", "SECRET-identity=&+\n"));
    environment.Set("AWS_ROLE_ARN", "arn:aws:iam::1:role/reader");
  }
  void SetContainer() {
    environment.Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/container");
  }

  // Requires a key.
  AccessKey Key() {
    const auto key = chain->Key();
    INFO(key.status().ToString());
    REQUIRE(key.ok());
    return *key;
  }

  // Requires an error without a secret, and returns its message.
  std::string Error(absl::StatusCode code) {
    const auto key = chain->Key();
    const std::string message = key.status().ToString();
    CAPTURE(message);
    CHECK(key.status().code() == code);
    CHECK_THAT(message, !Contains(kSecret));
    return message;
  }

  Environment environment;
  TemporaryFolder home;
  TimePoint now = TimePoint(std::chrono::hours(24 * 365 * 50));
  std::function<RawAnswer(const SeenRequest&)> answer = [](const SeenRequest&) {
    return Answer(404, "");
  };
  WebServer server;
  std::unique_ptr<WebClient> web;
  std::unique_ptr<CredentialChain> chain;
};

constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kIncomplete = absl::StatusCode::kFailedPrecondition;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

std::string StsAnswer(const std::string& id, TimePoint expires) {
  return absl::StrCat(
      "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n"
      "<AssumeRoleWithWebIdentityResult><Audience>x</Audience><Credentials>\n <SessionToken>"
      "SECRET-token-",
      id, "</SessionToken>\n <SecretAccessKey>SECRET-", id, "</SecretAccessKey>\n <Expiration>",
      TimeText(expires), "</Expiration>\n <AccessKeyId>", id,
      "</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>"
      "</AssumeRoleWithWebIdentityResponse>");
}

// Answers as all services of Amazon, with keys STS, CONTAINER and METADATA that expire in an hour.
RawAnswer AnswerAll(const SeenRequest& seen, TimePoint now) {
  const TimePoint expires = now + minutes(60);
  if (seen.target == "/") return Answer(200, StsAnswer("STS", expires));
  if (seen.target == "/container") return Answer(200, KeyJson("CONTAINER", expires));
  if (seen.target == "/latest/api/token") {
    return seen.method == "PUT" &&
                   seen.headers.at("x-aws-ec2-metadata-token-ttl-seconds") == "21600"
               ? Answer(200, "SECRET-metadata")
               : Answer(400, "");
  }
  if (!seen.headers.contains("x-aws-ec2-metadata-token") ||
      seen.headers.at("x-aws-ec2-metadata-token") != "SECRET-metadata") {
    return Answer(401, "");
  }
  if (seen.target == "/latest/meta-data/iam/security-credentials/") return Answer(200, "role 1\n");
  if (seen.target == "/latest/meta-data/iam/security-credentials/role%201") {
    return Answer(200, KeyJson("METADATA", expires));
  }
  return Answer(404, "");
}

TEST_CASE("The places are searched in order") {
  Place place;
  place.answer = [&](const SeenRequest& seen) { return AnswerAll(seen, place.now); };
  const auto look = [&] {
    place.chain = std::make_unique<CredentialChain>(*place.web, [&] { return place.now; });
    return place.Key();
  };
  CHECK(look() == KeyOf("METADATA"));
  place.SetContainer();
  CHECK(look() == KeyOf("CONTAINER"));
  place.WriteConfig("[default]\naws_access_key_id = CONFIG\naws_secret_access_key = SECRET-c\n");
  CHECK(look() == AccessKey{"CONFIG", "SECRET-c", ""});
  place.WriteConfig(absl::StrCat("[default]\ncredential_process = printf '%s' '",
                                 KeyJson("PROCESS", place.now + minutes(60), "SessionToken"),
                                 "'\naws_access_key_id = CONFIG\n"));
  CHECK(look() == KeyOf("PROCESS"));
  place.WriteCredentials("[default]\naws_access_key_id=FILE\naws_secret_access_key=SECRET-f\n");
  CHECK(look() == AccessKey{"FILE", "SECRET-f", ""});
  place.SetIdentity();
  CHECK(look() == KeyOf("STS"));
  place.environment.Set("AWS_ACCESS_KEY_ID", "ENVIRONMENT");
  place.environment.Set("AWS_SECRET_ACCESS_KEY", "SECRET-e");
  CHECK(look() == AccessKey{"ENVIRONMENT", "SECRET-e", ""});
  place.environment.Set("AWS_SESSION_TOKEN", "SECRET-t");
  CHECK(look() == AccessKey{"ENVIRONMENT", "SECRET-e", "SECRET-t"});
}

TEST_CASE("Without a key the error has the remedy") {
  Place place;
  const std::string role = place.Error(kDenied);
  CHECK_THAT(role, Contains("status 404"));
  CHECK_THAT(role, Contains("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
  place.environment.Set("AWS_EC2_METADATA_DISABLED", "true");
  const size_t requests = place.server.requests().size();
  CHECK_THAT(place.Error(kDenied), Contains("AWS_EC2_METADATA_DISABLED is set"));
  CHECK(place.server.requests().size() == requests);
}

TEST_CASE("Half a key in the environment is an error") {
  Place place;
  place.environment.Set("AWS_ACCESS_KEY_ID", "ID");
  CHECK_THAT(place.Error(kIncomplete), Contains("AWS_SECRET_ACCESS_KEY is not set"));
  place.environment.Set("AWS_ACCESS_KEY_ID", "");
  place.environment.Set("AWS_SECRET_ACCESS_KEY", "SECRET-x");
  CHECK_THAT(place.Error(kIncomplete), Contains("AWS_ACCESS_KEY_ID is not set"));
}

TEST_CASE("A web identity is exchanged for a key") {
  Place place;
  place.SetIdentity();
  place.answer = [&](const SeenRequest& seen) { return AnswerAll(seen, place.now); };

  SECTION("with the role, the session and the token of the file") {
    place.environment.Set("AWS_ROLE_SESSION_NAME", "my session");
    CHECK(place.Key() == KeyOf("STS"));
    const SeenRequest seen = place.server.requests().back();
    CHECK(seen.method == "POST");
    CHECK(seen.headers.at("content-type") == "application/x-www-form-urlencoded");
    CHECK_FALSE(seen.headers.contains("authorization"));
    CHECK(seen.body ==
          "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
          "&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Freader&RoleSessionName=my%20session"
          "&WebIdentityToken=SECRET-identity%3D%26%2B");
  }
  SECTION("again before it expires, with the token that the file has then") {
    place.Key();
    place.home.Write("token", "SECRET-next");
    place.now += minutes(54);
    place.Key();
    CHECK(place.server.requests().size() == 1);
    place.now += minutes(2);
    place.Key();
    CHECK(place.server.requests().size() == 2);
    CHECK_THAT(place.server.requests().back().body, Contains("WebIdentityToken=SECRET-next"));
  }
  SECTION("named by a profile") {
    place.environment.Set("AWS_WEB_IDENTITY_TOKEN_FILE", std::nullopt);
    place.environment.Set("AWS_ROLE_ARN", std::nullopt);
    place.WriteConfig(absl::StrCat(
        "[default]\nrole_arn = arn:r\nweb_identity_token_file = ", place.home.Path("token"), "\n"));
    CHECK(place.Key() == KeyOf("STS"));
    CHECK_THAT(place.server.requests().back().body, Contains("RoleArn=arn%3Ar&"));
  }
  SECTION("but not without a role") {
    place.environment.Set("AWS_ROLE_ARN", std::nullopt);
    CHECK_THAT(place.Error(kIncomplete), Contains("AWS_ROLE_ARN is not set"));
  }
  SECTION("but not without the file") {
    place.environment.Set("AWS_WEB_IDENTITY_TOKEN_FILE", place.home.Path("none"));
    CHECK_THAT(place.Error(kIncomplete), Contains("/none: there is no such file"));
  }
  SECTION("but not with an empty file") {
    place.home.Write("token", "\n");
    CHECK_THAT(place.Error(kIncomplete), Contains("the file is empty"));
  }
  SECTION("or refused, with the reason") {
    place.answer = [](const SeenRequest&) {
      return Answer(400,
                    "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>No provider "
                    "&lt;x&gt;</Message></Error></ErrorResponse>");
    };
    const std::string message = place.Error(kDenied);
    CHECK_THAT(message, Contains("role arn:aws:iam::1:role/reader"));
    CHECK_THAT(message, Contains("InvalidIdentityToken: No provider <x>"));
  }
  SECTION("or refused, without a reason that has the token") {
    place.answer = [](const SeenRequest&) {
      return Answer(400, "<Code>Bad</Code><Message>SECRET-identity=&amp;+ is bad</Message>");
    };
    CHECK_THAT(place.Error(kDenied), Contains("status 400"));
  }
  SECTION("or not answered") {
    place.answer = [](const SeenRequest&) { return Answer(503, ""); };
    CHECK_THAT(place.Error(kUnavailable), Contains("status 503"));
    place.answer = [](const SeenRequest&) { return RawAnswer{"", RawAnswer::Then::kClose}; };
    CHECK_THAT(place.Error(kUnavailable), Contains("incomplete"));
    place.answer = [](const SeenRequest&) { return Answer(200, "<html>SECRET-x</html>"); };
    CHECK_THAT(place.Error(kUnavailable), Contains("has no AccessKeyId"));
  }
}

TEST_CASE("Profiles are read as Amazon's programs do") {
  Place place;
  place.environment.Set("AWS_EC2_METADATA_DISABLED", "true");
  place.WriteCredentials(
      "# a comment\r\n; another\r\n[default]\r\naws_access_key_id = D\r\n"
      "aws_secret_access_key = SECRET-d=#;x\r\n\r\n"
      "[ other ]\nAWS_ACCESS_KEY_ID=O\naws_secret_access_key=SECRET-o\n"
      "aws_session_token = SECRET-t\ns3 =\n  aws_access_key_id = NESTED\n"
      "[half]\naws_access_key_id = H\n");
  place.WriteConfig(
      "[default]\nregion = eu-west-1\n[profile other]\nregion = eu-north-1\n"
      "[profile in config]\naws_access_key_id = C\naws_secret_access_key = SECRET-c\n"
      "[profile \"quoted\"]\naws_access_key_id = Q\naws_secret_access_key = SECRET-q\n"
      "[plain]\naws_access_key_id = P\naws_secret_access_key = SECRET-p\n"
      "[profile role]\nrole_arn = arn:r\nsource_profile = default\n"
      "[profile sso]\nsso_session = s\nsso_account_id = 1\n"
      "[profile region]\nregion = us-east-2\n");
  const auto with = [&](const std::string& profile) {
    place.environment.Set("AWS_PROFILE", profile);
    place.chain = std::make_unique<CredentialChain>(*place.web, [&] { return place.now; });
  };
  CHECK(place.Key() == AccessKey{"D", "SECRET-d=#;x", ""});
  CHECK(ConfiguredRegion() == "eu-west-1");
  with("other");
  CHECK(place.Key() == AccessKey{"O", "SECRET-o", "SECRET-t"});
  CHECK(ConfiguredRegion() == "eu-north-1");
  with("in config");
  CHECK(place.Key() == AccessKey{"C", "SECRET-c", ""});
  CHECK(ConfiguredRegion() == "");
  with("quoted");
  CHECK(place.Key() == AccessKey{"Q", "SECRET-q", ""});
  with("half");
  CHECK_THAT(place.Error(kIncomplete), Contains("has no aws_secret_access_key"));
  with("role");
  CHECK_THAT(place.Error(kIncomplete), Contains("role_arn, which is not supported"));
  CHECK_THAT(place.Error(kIncomplete), Contains("export-credentials"));
  with("sso");
  CHECK_THAT(place.Error(kIncomplete), Contains("sso_session, which is not supported"));
  with("plain");
  CHECK_THAT(place.Error(kIncomplete), Contains("the profile plain is neither in "));
  with("region");
  CHECK_THAT(place.Error(kDenied), Contains("profile region"));

  place.environment.Set("AWS_DEFAULT_REGION", "ap-south-1");
  CHECK(ConfiguredRegion() == "ap-south-1");
  place.environment.Set("AWS_REGION", "ap-south-2");
  CHECK(ConfiguredRegion() == "ap-south-2");
}

TEST_CASE("The environment names the files of profiles") {
  Place place;
  const char* const text = "[default]\naws_access_key_id = X\naws_secret_access_key = SECRET-x\n";
  const bool is_config = GENERATE(false, true);
  const char* const variable = is_config ? "AWS_CONFIG_FILE" : "AWS_SHARED_CREDENTIALS_FILE";
  place.home.Write("elsewhere", text);
  place.environment.Set(variable, "~/elsewhere");
  CHECK(place.Key().id == "X");

  place.chain = std::make_unique<CredentialChain>(*place.web);
  place.environment.Set(variable, place.home.path());
  CHECK_THAT(place.Error(kIncomplete), Contains(place.home.path() + ": is a folder"));
}

TEST_CASE("A profile's process prints a key") {
  Place place;
  const auto run = [&](const std::string& command) {
    place.WriteConfig(absl::StrCat("[default]\ncredential_process = ", command, "\n"));
  };
  const auto print = [&](const std::string& id, minutes life) {
    place.home.Write("key.json", KeyJson(id, place.now + life, "SessionToken"));
  };
  run(absl::StrCat("cat ", place.home.Path("key.json")));

  SECTION("and again before the key expires") {
    print("ONE", minutes(60));
    CHECK(place.Key() == KeyOf("ONE"));
    place.now += minutes(56);
    print("TWO", minutes(60));
    CHECK(place.Key() == KeyOf("TWO"));
  }
  SECTION("that has no end") {
    place.home.Write("key.json", R"({"AccessKeyId": "A", "SecretAccessKey": "SECRET-a"})");
    CHECK(place.Key() == AccessKey{"A", "SECRET-a", ""});
  }
  SECTION("or fails") {
    run("exit 3 # SECRET-argument");
    CHECK_THAT(place.Error(kIncomplete),
               Contains("profile default: credential_process: exit status 3"));
    run("kill -9 $$");
    CHECK_THAT(place.Error(kIncomplete), Contains("was killed"));
  }
  SECTION("or prints something else") {
    for (const char* const text : {"", "SECRET-text", "[1]", R"({"AccessKeyId": 1})",
                                   R"({"AccessKeyId": "SECRET-1", "SecretAccessKey": ""})"}) {
      CAPTURE(text);
      place.home.Write("key.json", text);
      CHECK_THAT(place.Error(kIncomplete), Contains("did not print a key as JSON"));
    }
  }
}

TEST_CASE("A container's service gives a key") {
  Place place;
  place.SetContainer();
  place.answer = [&](const SeenRequest& seen) { return AnswerAll(seen, place.now); };

  SECTION("for a token of the environment") {
    place.environment.Set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic SECRET-token");
    CHECK(place.Key() == KeyOf("CONTAINER"));
    CHECK(place.server.requests().back().headers.at("authorization") == "Basic SECRET-token");
  }
  SECTION("for a token of a file, first") {
    place.environment.Set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "not this");
    place.environment.Set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                          place.home.Write("token", "SECRET-file\n"));
    CHECK(place.Key() == KeyOf("CONTAINER"));
    CHECK(place.server.requests().back().headers.at("authorization") == "SECRET-file");
  }
  SECTION("without a token, and without a proxy") {
    place.environment.Set("http_proxy", "http://127.0.0.1:1");
    CHECK(place.Key() == KeyOf("CONTAINER"));
    CHECK_FALSE(place.server.requests().back().headers.contains("authorization"));
  }
  SECTION("but not for a bad token") {
    place.environment.Set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "SECRET-a\r\nX: b");
    CHECK_THAT(place.Error(kIncomplete), Contains("several lines"));
    place.environment.Set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", place.home.Path("none"));
    CHECK_THAT(place.Error(kIncomplete), Contains("/none: there is no such file"));
  }
  SECTION("but not at another host, which would see the token") {
    place.environment.Set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "SECRET-token");
    for (const char* const url :
         {"http://example.com/x", "http://10.0.0.1/", "http://127.0.0.1.example.com/",
          "http://localhost.example.com/", "http://127.0.0.1@example.com/", "http://128.0.0.1/",
          "http://127.0.0.256/", "ftp://127.0.0.1/", "x", "http://[fd00:ec2::24]/",
          "http://169.254.169.254/", "http://127.1/"}) {
      CAPTURE(url);
      place.environment.Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", url);
      CHECK_THAT(place.Error(kIncomplete), Contains("is not trusted with a token"));
    }
    CHECK(place.server.requests().empty());
  }
  SECTION("or refuses, or fails") {
    place.answer = [](const SeenRequest&) { return Answer(403, "SECRET-x"); };
    CHECK_THAT(place.Error(kDenied), Contains("the container's credentials: it answered with "
                                              "status 403"));
    place.answer = [](const SeenRequest&) { return Answer(500, "SECRET-x"); };
    CHECK_THAT(place.Error(kUnavailable), Contains("status 500"));
    place.answer = [](const SeenRequest&) { return Answer(200, "SECRET-x"); };
    CHECK_THAT(place.Error(kUnavailable), Contains("not a JSON object"));
    place.answer = [](const SeenRequest&) {
      return Answer(200, R"({"AccessKeyId": "A", "SecretAccessKey": "SECRET-a",
                             "Expiration": "tomorrow"})");
    };
    CHECK_THAT(place.Error(kUnavailable), Contains("not a time of ISO 8601"));
  }
}

TEST_CASE("An instance's metadata gives a key") {
  Place place;
  const auto answer_but = [&](const std::string& target, int status, const std::string& body) {
    place.answer = [&, target, status, body](const SeenRequest& seen) {
      return seen.target == target ? Answer(status, body) : AnswerAll(seen, place.now);
    };
  };
  const std::string roles = "/latest/meta-data/iam/security-credentials/";
  answer_but("", 0, "");

  SECTION("of its role, without a proxy") {
    place.environment.Set("http_proxy", "http://127.0.0.1:1");
    place.environment.Set("AWS_EC2_METADATA_SERVICE_ENDPOINT", place.server.url() + "/");
    CHECK(place.Key() == KeyOf("METADATA"));
    CHECK(place.server.requests().size() == 3);
  }
  SECTION("but not without a role") {
    answer_but(roles, 404, "");
    CHECK_THAT(place.Error(kDenied), Contains("the instance has no role"));
    answer_but(roles, 200, "\n");
    CHECK_THAT(place.Error(kDenied), Contains("the instance has no role"));
  }
  SECTION("but not if it is refused") {
    answer_but("/latest/api/token", 403, "");
    CHECK_THAT(place.Error(kDenied), Contains("status 403"));
  }
  SECTION("or fails") {
    answer_but("/latest/api/token", 503, "");
    CHECK_THAT(place.Error(kUnavailable), Contains("status 503"));
    answer_but(roles, 500, "");
    CHECK_THAT(place.Error(kUnavailable), Contains("status 500"));
    answer_but(roles + "role%201", 200, R"({"Code": "Failed"})");
    CHECK_THAT(place.Error(kUnavailable), Contains("has no AccessKeyId"));
  }
  SECTION("but not where there is no such service") {
    place.environment.Set("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1");
    CHECK_THAT(place.Error(kDenied), Contains("127.0.0.1:1: "));
  }
}

TEST_CASE("A key is kept until five minutes before it expires") {
  Place place;
  place.SetContainer();
  int given = 0;
  minutes life{60};
  int status = 200;
  place.answer = [&](const SeenRequest&) {
    return Answer(status, KeyJson(absl::StrCat("K", ++given), place.now + life));
  };
  CHECK(place.Key() == KeyOf("K1"));
  place.now += minutes(54);
  CHECK(place.Key() == KeyOf("K1"));
  CHECK(given == 1);
  place.now += minutes(1);
  CHECK(place.Key() == KeyOf("K2"));

  SECTION("or is forgotten, if it is the one that the store has refused") {
    place.chain->Forget(KeyOf("K1"));
    CHECK(place.Key() == KeyOf("K2"));
    place.chain->Forget(KeyOf("K2"));
    CHECK(place.Key() == KeyOf("K3"));
  }
  SECTION("and used while its renewal fails") {
    status = 500;
    place.now += minutes(56);
    CHECK(place.Key() == KeyOf("K2"));
    CHECK(given == 3);
    CHECK(place.Key() == KeyOf("K2"));  // The next attempt is half a minute later.
    CHECK(given == 3);
    place.now += std::chrono::seconds(30);
    CHECK(place.Key() == KeyOf("K2"));
    CHECK(given == 4);
    place.now += minutes(4);
    place.Error(kUnavailable);
    status = 403;
    place.Error(kUnavailable);
    status = 200;
    CHECK(place.Key() == KeyOf("K7"));
  }
  SECTION("or half of its life, if that is shorter") {
    life = minutes(4);
    place.now += minutes(55);
    CHECK(place.Key() == KeyOf("K3"));
    CHECK(place.Key() == KeyOf("K3"));
    place.now += minutes(2);
    CHECK(place.Key() == KeyOf("K4"));
  }
  SECTION("and one that has expired is an error") {
    life = minutes(0);
    place.now += minutes(60);
    CHECK_THAT(place.Error(kUnavailable), Contains("expired"));
  }
}

}  // namespace
}  // namespace simurgh
