#include "objects/web_client.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "tests/support/environment.h"
#include "tests/support/rpc/certificates.h"
#include "tests/support/web_server.h"

namespace simurgh {
namespace {

using Catch::Contains;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using testing::Answer;
using testing::Environment;
using testing::RawAnswer;
using testing::SeenRequest;
using testing::WebServer;

constexpr char kSecret[] = "wJalr:XUtn/FEMI+K7MDENG=";
constexpr char kToken[] = "FwoGZXIvYXdzEBY/aTo+ken==";

// A client that no variable of the environment disturbs.
struct Client {
  Client() {
    for (const char* const name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                   "ALL_PROXY", "no_proxy", "NO_PROXY", "AWS_CA_BUNDLE"}) {
      environment.Set(name, std::nullopt);
    }
    auto made = WebClient::Create();
    INFO(made.status().ToString());
    REQUIRE(made.ok());
    web = *std::move(made);
  }

  Environment environment;
  std::unique_ptr<WebClient> web;
};

WebRequest Get(const std::string& url) {
  WebRequest request;
  request.url = url;
  return request;
}

WebRequest Request(const std::string& method, const std::string& url, std::string_view body = "") {
  WebRequest request = Get(url);
  request.method = method;
  request.body = body;
  return request;
}

WebAnswer MustSend(Client& client, const WebRequest& request) {
  auto answer = client.web->Send(request);
  INFO(answer.status().ToString());
  REQUIRE(answer.ok());
  return *std::move(answer);
}

// The signature of version 4, from its description:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html

std::string HmacOf(const std::string& key, const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, nullptr);
  return {reinterpret_cast<const char*>(digest), sizeof(digest)};
}

std::string HexDigestOf(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), sizeof(digest)});
}

// The text between two others in the header Authorization.
std::string Part(const std::string& header, const std::string& begin, const std::string& end) {
  const size_t from = header.find(begin);
  REQUIRE(from != header.npos);
  const size_t start = from + begin.size();
  return header.substr(start, end.empty() ? header.npos : header.find(end, start) - start);
}

std::string SignatureOf(const SeenRequest& request, const std::string& secret,
                        const std::string& region) {
  const std::string authorization = request.headers.at("authorization");
  const std::string signed_names = Part(authorization, "SignedHeaders=", ",");
  const std::pair<std::string, std::string> target =
      absl::StrSplit(request.target, absl::MaxSplits('?', 1));
  std::vector<std::string> parameters = absl::StrSplit(target.second, '&', absl::SkipEmpty());
  std::ranges::sort(parameters);
  std::string canonical =
      absl::StrCat(request.method, "\n", target.first, "\n", absl::StrJoin(parameters, "&"), "\n");
  const std::vector<std::string> names = absl::StrSplit(signed_names, ';');
  for (const std::string& name : names) {
    absl::StrAppend(&canonical, name, ":", request.headers.at(name), "\n");
  }
  absl::StrAppend(&canonical, "\n", signed_names, "\n", request.headers.at("x-amz-content-sha256"));
  const std::string time = request.headers.at("x-amz-date");
  const std::string date = time.substr(0, 8);
  const std::string scope = absl::StrCat(date, "/", region, "/s3/aws4_request");
  const std::string text =
      absl::StrCat("AWS4-HMAC-SHA256\n", time, "\n", scope, "\n", HexDigestOf(canonical));
  std::string key = HmacOf("AWS4" + secret, date);
  for (const std::string& part : {region, std::string("s3"), std::string("aws4_request")}) {
    key = HmacOf(key, part);
  }
  return absl::BytesToHexString(HmacOf(key, text));
}

TEST_CASE("The signature of these tests is that of Amazon's example") {
  const SeenRequest request{
      "GET",
      "/test.txt",
      {{"host", "examplebucket.s3.amazonaws.com"},
       {"range", "bytes=0-9"},
       {"x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
       {"x-amz-date", "20130524T000000Z"},
       {"authorization",
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature="}},
      ""};
  CHECK(SignatureOf(request, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1") ==
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST_CASE("A request is signed by version 4 as the server computes it") {
  Client client;
  WebServer server([](const SeenRequest&) { return Answer(200, ""); });
  const std::string key =
      "/bucket/" + UrlEncoded("a b+c\xC3\xA4=d&e/.../f~_-./.g//(x)*'!@:,;$", "/");
  CHECK(key == "/bucket/a%20b%2Bc%C3%A4%3Dd%26e/.../f~_-./.g//%28x%29%2A%27%21%40%3A%2C%3B%24");
  const std::string listing = "/bucket?continuation-token=" + UrlEncoded("1/=a b") +
                              "&list-type=2&prefix=" + UrlEncoded("m o/d&e=l");
  const std::string large(3 << 20, 'b');  // Waits for "100 Continue".

  struct Case {
    std::string method, target;
    std::string_view body;
    std::vector<std::pair<std::string, std::string>> headers;
  };
  const std::vector<Case> cases = {
      {"GET", key, "", {}},
      {"GET", key, "", {{"Range", "bytes=5-9"}}},
      {"GET", listing, "", {}},
      {"HEAD", key, "", {}},
      {"DELETE", key, "", {}},
      {"DELETE", key + "?uploadId=u%2F1", "", {}},
      {"PUT", key, "some bytes", {}},
      {"PUT", key, "", {{"If-None-Match", "*"}}},
      {"PUT", key, "some bytes", {{"If-Match", "\"etag-1\""}}},
      {"PUT", key + "?partNumber=2&uploadId=u%2F1", large, {}},
      {"POST", key + "?uploads=", "", {}},
      {"POST", key + "?uploadId=u1", "<Complete/>", {{"Content-Type", "application/xml"}}},
      {"POST", "/bucket?delete=", "<Delete/>", {{"Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="}}},
  };
  for (const std::string token : {"", kToken}) {
    for (const auto& [method, target, body, headers] : cases) {
      CAPTURE(method, target, token);
      WebRequest request = Request(method, server.url() + target, body);
      request.headers = headers;
      request.signature = {.key = {"AKIDEXAMPLE", kSecret, token}, .region = "eu-central-1"};
      CHECK(MustSend(client, request).status == 200);

      const SeenRequest seen = server.requests().back();
      CHECK(seen.method == method);
      CHECK(seen.target == target);
      CHECK(seen.body == body);
      for (const auto& [name, value] : headers) {
        CHECK(seen.headers.at(absl::AsciiStrToLower(name)) == value);
      }
      CHECK(seen.headers.at("x-amz-content-sha256") == "UNSIGNED-PAYLOAD");
      CHECK(seen.headers.contains("x-amz-security-token") == !token.empty());
      const std::string authorization = seen.headers.at("authorization");
      CHECK_THAT(authorization, Contains(absl::StrCat("Credential=AKIDEXAMPLE/",
                                                      seen.headers.at("x-amz-date").substr(0, 8),
                                                      "/eu-central-1/s3/aws4_request")));
      const std::string names = Part(authorization, "SignedHeaders=", ",") + ";";
      CHECK_THAT(names, Contains("host;"));
      CHECK_THAT(names, Contains("x-amz-date;"));
      if (!token.empty()) CHECK_THAT(names, Contains("x-amz-security-token;"));
      CHECK(Part(authorization, "Signature=", "") == SignatureOf(seen, kSecret, "eu-central-1"));
    }
  }
}

TEST_CASE("A + in a parameter is signed as the server computes it, or refused") {
  Client client;
  WebServer server([](const SeenRequest&) { return Answer(200, ""); });
  WebRequest request = Get(server.url() + "/bucket?prefix=" + UrlEncoded("a+b c"));
  CHECK(MustSend(client, request).status == 200);
  request.signature = {.key = {"AKIDEXAMPLE", kSecret, ""}, .region = "eu-central-1"};
  const auto answer = client.web->Send(request);
  if (answer.ok()) {
    const SeenRequest seen = server.requests().back();
    CHECK(seen.target == "/bucket?prefix=a%2Bb%20c");
    CHECK(Part(seen.headers.at("authorization"), "Signature=", "") ==
          SignatureOf(seen, kSecret, "eu-central-1"));
  } else {
    CHECK(answer.status().code() == absl::StatusCode::kFailedPrecondition);
    CHECK_THAT(std::string(answer.status().message()),
               Contains("signs a + in a parameter as a space"));
    CHECK(server.requests().size() == 1);
  }
}

TEST_CASE("A path is sent as it is, and not signed if libcurl would simplify it") {
  Client client;
  WebServer server([](const SeenRequest& seen) { return Answer(200, seen.target); });
  for (const std::string path : {"/a/../b", "/a/./b?x=y", "/..", "/a/."}) {
    CAPTURE(path);
    WebRequest request = Get(server.url() + path);
    CHECK(MustSend(client, request).body == path);
    request.signature = {.key = {"AKIDEXAMPLE", kSecret, ""}, .region = "eu-central-1"};
    CHECK(client.web->Send(request).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("A request without a signature has the given headers alone") {
  Client client;
  WebServer server([](const SeenRequest&) { return Answer(200, "body", "X-Odd: A: b \r\n"); });
  WebRequest request = Request("PUT", server.url() + "/x", "");
  request.headers = {{"X-One", "1"}, {"X-Empty", ""}};
  const WebAnswer answer = MustSend(client, request);
  CHECK(answer.body == "body");
  CHECK(answer.headers.at("x-odd") == "A: b");
  CHECK(answer.headers.at("content-length") == "4");
  const SeenRequest seen = server.requests().back();
  CHECK(seen.method == "PUT");
  CHECK(seen.headers.at("x-one") == "1");
  CHECK(seen.headers.at("x-empty").empty());
  CHECK(seen.headers.at("content-length") == "0");
  CHECK_FALSE(seen.headers.contains("authorization"));
}

TEST_CASE("Connections are used again, by many threads") {
  Client client;
  WebServer server([](const SeenRequest& seen) { return Answer(200, seen.target); });
  for (int i = 0; i < 5; ++i) MustSend(client, Get(server.url() + "/a"));
  CHECK(server.connections() == 1);

  constexpr int kThreads = 8;
  std::array<int, kThreads> right{};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string path = absl::StrCat("/", t, "/", i);
        const auto answer = client.web->Send(Get(server.url() + path));
        right[t] += answer.ok() && answer->body == path;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : right) CHECK(count == 20);
  CHECK(server.connections() <= kThreads);
}

TEST_CASE("A request is repeated on a connection that the server has closed") {
  Client client;
  // The answer does not say that the connection ends.
  WebServer server([](const SeenRequest& seen) {
    RawAnswer answer = Answer(200, seen.body);
    answer.then = RawAnswer::Then::kClose;
    return answer;
  });
  for (int i = 0; i < 3; ++i) {
    CHECK(MustSend(client, Request("PUT", server.url() + "/a", "body")).body == "body");
  }
  CHECK(server.connections() == 3);
}

TEST_CASE("Answers of every status are returned, and redirects are not followed") {
  Client client;
  WebServer server([](const SeenRequest& seen) {
    return Answer(std::stoi(seen.target.substr(1)), seen.method == "HEAD" ? "" : "why",
                  "Location: http://127.0.0.1:1/\r\n");
  });
  for (const int status : {200, 206, 301, 307, 404, 412, 503}) {
    const WebAnswer answer = MustSend(client, Get(absl::StrCat(server.url(), "/", status)));
    CHECK(answer.status == status);
    CHECK(answer.body == "why");
  }
  CHECK(server.requests().size() == 7);
}

TEST_CASE("The length of an object that HEAD names is no body") {
  Client client;
  WebServer server([](const SeenRequest&) {
    return RawAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\nETag: \"e\"\r\n\r\n"};
  });
  const WebAnswer answer = MustSend(client, Request("HEAD", server.url() + "/a"));
  CHECK(answer.headers.at("content-length") == "99999999999");
  CHECK(answer.headers.at("etag") == "\"e\"");
  CHECK(answer.body.empty());
}

TEST_CASE("Half an answer is an error") {
  Client client;
  const std::string bytes =
      GENERATE(std::string("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
               std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
               std::string("HTTP/1.1 200 OK\r\nContent-Len"), std::string());
  WebServer server([&](const SeenRequest&) { return RawAnswer{bytes, RawAnswer::Then::kClose}; });
  CAPTURE(bytes);
  const auto answer = client.web->Send(Get(server.url() + "/a"));
  CHECK(answer.status().code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(answer.status().message()), Contains("127.0.0.1:"));
  CHECK_THAT(std::string(answer.status().message()), Contains("incomplete"));
}

TEST_CASE("An answer that is not HTTP is an error") {
  Client client;
  WebServer server([](const SeenRequest&) {
    return RawAnswer{"220 mail.example.com\r\n", RawAnswer::Then::kClose};
  });
  CHECK(client.web->Send(Get(server.url() + "/a")).status().code() ==
        absl::StatusCode::kUnavailable);
}

TEST_CASE("A body that is too long is an error") {
  Client client;
  const bool is_chunked = GENERATE(false, true);
  WebServer server([&](const SeenRequest&) {
    return is_chunked ? RawAnswer{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "5\r\n12345\r\n6\r\n678901\r\n0\r\n\r\n"}
                      : Answer(200, "12345678901");
  });
  WebRequest request = Get(server.url() + "/a");
  request.max_bytes = 11;
  CHECK(MustSend(client, request).body == "12345678901");
  request.max_bytes = 10;
  const auto answer = client.web->Send(request);
  CHECK(answer.status().code() == absl::StatusCode::kOutOfRange);
  CHECK_THAT(std::string(answer.status().message()), Contains("exceeds 10 bytes"));
}

TEST_CASE("Headers without end are an error") {
  Client client;
  WebServer server([](const SeenRequest&) {
    std::string bytes = "HTTP/1.1 200 OK\r\n";
    for (int i = 0; i < 100; ++i)
      absl::StrAppend(&bytes, "X-", i, ": ", std::string(5'000, 'x'), "\r\n");
    return RawAnswer{bytes + "\r\n"};
  });
  CHECK(client.web->Send(Get(server.url() + "/a")).status().code() ==
        absl::StatusCode::kOutOfRange);
}

TEST_CASE("A server that stalls is an error") {
  Client client;
  const std::string sent = GENERATE(std::string(), std::string("HTTP/1.1 200 OK\r\nContent-Le"),
                                    std::string("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nha"));
  WebServer server([&](const SeenRequest&) { return RawAnswer{sent, RawAnswer::Then::kHang}; });
  WebRequest request = Get(server.url() + "/a");
  request.stall_timeout = 1s;
  const auto answer = client.web->Send(request);
  CHECK(answer.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK_THAT(std::string(answer.status().message()), Contains("no byte"));
}

TEST_CASE("A server that does not exist is an error") {
  Client client;
  std::string url;
  {
    WebServer server([](const SeenRequest&) { return Answer(200, ""); });
    url = server.url();
  }
  const auto answer = client.web->Send(Get(url + "/a"));
  CHECK(answer.status().code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(answer.status().message()), Contains(url.substr(7)));
  CHECK_THAT(std::string(answer.status().message()), Contains("refused"));

  CHECK(client.web->Send(Get("http://nowhere.invalid/a")).status().code() ==
        absl::StatusCode::kUnavailable);
  for (const char* const bad : {"file:///etc/passwd", "s3://bucket/key", "", "http://"}) {
    CAPTURE(bad);
    CHECK(client.web->Send(Get(bad)).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("The proxy of the environment is used, but not by a direct request") {
  Client client;
  WebServer server([](const SeenRequest&) { return Answer(200, "server"); });
  WebServer proxy([](const SeenRequest&) { return Answer(200, "proxy"); });
  client.environment.Set("http_proxy", proxy.url());
  WebRequest request = Get(server.url() + "/a");
  CHECK(MustSend(client, request).body == "proxy");
  request.is_direct = true;
  CHECK(MustSend(client, request).body == "server");
}

TEST_CASE("A certificate is trusted if its authority is named") {
  Client client;
  rpc::testing::TestAuthority authority;
  const auto issued = authority.Issue("server");
  const WebServer::Certificate certificate{issued.certificate_file, issued.key_file};
  WebServer server([](const SeenRequest&) { return Answer(200, "by TLS"); }, &certificate);

  const auto refused = client.web->Send(Get(server.url() + "/a"));
  CHECK(refused.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(refused.status().message()), Contains("AWS_CA_BUNDLE"));

  client.environment.Set("AWS_CA_BUNDLE", "/nowhere/authority.pem");
  const auto no_file = client.web->Send(Get(server.url() + "/a"));
  CHECK(no_file.status().code() == absl::StatusCode::kFailedPrecondition);

  client.environment.Set("AWS_CA_BUNDLE", authority.certificate_file());
  CHECK(MustSend(client, Get(server.url() + "/a")).body == "by TLS");
}

TEST_CASE("Messages have no secret") {
  Client client;
  WebServer server([](const SeenRequest& seen) {
    if (seen.target == "/hang") return RawAnswer{"", RawAnswer::Then::kHang};
    return RawAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", RawAnswer::Then::kClose};
  });
  for (const std::string& url :
       {server.url() + "/half", server.url() + "/hang", std::string("http://127.0.0.1:1/x"),
        std::string("http://name:") + kSecret + "@127.0.0.1:1/",
        std::string("http://nowhere.invalid/"), std::string("ftp://") + kSecret}) {
    WebRequest request = Get(url);
    request.signature = {.key = {"AKIDEXAMPLE", kSecret, kToken}, .region = "eu-central-1"};
    request.stall_timeout = 1s;
    request.connect_timeout = 5'000ms;
    const auto answer = client.web->Send(request);
    REQUIRE_FALSE(answer.ok());
    const std::string message = answer.status().ToString();
    CHECK_THAT(message, !Contains(kSecret));
    CHECK_THAT(message, !Contains(kToken));
    CHECK_THAT(message, !Contains("AKIDEXAMPLE"));
  }
}

TEST_CASE("A text is encoded for a URL") {
  CHECK(UrlEncoded("azAZ09-._~") == "azAZ09-._~");
  CHECK(UrlEncoded("a/b c+\xC3\xA4%") == "a%2Fb%20c%2B%C3%A4%25");
  CHECK(UrlEncoded("a/b:c", "/:") == "a/b:c");
  CHECK(UrlEncoded("") == "");
}

}  // namespace
}  // namespace simurgh
