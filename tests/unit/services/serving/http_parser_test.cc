#include "services/runtime/http_parser.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <zlib.h>

#include "absl/strings/str_format.h"
#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using State = HttpParser::State;

constexpr HttpParser::Limits kLimits{.header_bytes = 256, .body_bytes = 64};

struct Parsed {
  int code = 0;
  std::optional<HttpRequest> request;
  std::string rest;  // Bytes that are not of the request.
};

// Gives the bytes in pieces, as a server does.
Parsed Parse(const std::string& bytes, size_t piece) {
  HttpParser parser(kLimits);
  std::string received;
  size_t next = 0;
  for (;;) {
    const auto progress = parser.Take(received);
    received.erase(0, progress.used);
    if (progress.code != 0) {
      CHECK_FALSE(progress.message.empty());
      return {.code = progress.code, .request = {}, .rest = received};
    }
    if (parser.state() == State::kDone) break;
    if (progress.used > 0) continue;
    if (next == bytes.size()) return {.code = 0, .request = {}, .rest = received};
    const size_t count = std::min(piece, bytes.size() - next);
    received.append(bytes, next, count);
    next += count;
  }
  return {.code = 0, .request = parser.Release(), .rest = received + bytes.substr(next)};
}

constexpr char kPost[] =
    "POST /v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nAuthorization: Bearer t\r\n"
    "Inference-Header-Content-Length: 3\r\n\r\nhello";

}  // namespace

TEST_CASE("requests are parsed whatever pieces they arrive in", "[serving]") {
  for (const size_t piece : {1, 2, 7, 1000}) {
    INFO(piece);
    const Parsed parsed = Parse(std::string(kPost) + "GET / HTTP/1.1\r\n\r\n", piece);
    REQUIRE(parsed.request);
    CHECK(parsed.request->head.method == "POST");
    CHECK(parsed.request->head.target == "/v2/x");
    CHECK(parsed.request->head.authorization == "Bearer t");
    CHECK(parsed.request->head.inference_header_length == "3");
    CHECK(parsed.request->head.keep_alive);
    CHECK_FALSE(parsed.request->head.expects_continue);
    CHECK(parsed.request->body == "hello");
    CHECK(parsed.rest == "GET / HTTP/1.1\r\n\r\n");
  }
}

TEST_CASE("chunked bodies are put together", "[serving]") {
  for (const size_t piece : {1, 3, 1000}) {
    const Parsed parsed = Parse(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nX",
        piece);
    REQUIRE(parsed.request);
    CHECK(parsed.request->body == "abcde");
    CHECK(parsed.rest == "X");
  }
}

TEST_CASE("an empty chunked body may arrive in pieces", "[serving]") {
  const std::string head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
  for (const size_t piece : {1, 2, 1000}) {
    const Parsed parsed = Parse(head + "\r\nX", piece);
    REQUIRE(parsed.request);
    CHECK(parsed.request->body.empty());
    CHECK(parsed.rest == "X");
    CHECK(Parse(head + "{}\r\n\r\n", piece).code == 400);
  }
}

namespace {

// Compressed by `gzip`.
std::string Gzip(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string PostOf(const std::string& body, const std::string& encoding = "gzip") {
  return "POST / HTTP/1.1\r\nContent-Encoding: " + encoding +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace

TEST_CASE("bodies in gzip are decompressed", "[serving]") {
  const std::string text = "hello, hello, hello, hello";
  for (const size_t piece : {1, 3, 1000}) {
    CAPTURE(piece);
    for (const std::string& body : {Gzip(text), Gzip("hello, hello, ") + Gzip("hello, hello")}) {
      const Parsed parsed = Parse(PostOf(body) + "X", piece);
      REQUIRE(parsed.request);
      CHECK(parsed.request->body == text);
      CHECK(parsed.request->head.content_encoding.empty());
      CHECK(parsed.rest == "X");
    }
    CHECK(Parse(PostOf(Gzip(std::string(64, 'x'))), piece).request->body == std::string(64, 'x'));
    CHECK(Parse(PostOf(Gzip("x"), "X-GZip"), piece).request->body == "x");
    CHECK(Parse(PostOf(""), piece).request->body.empty());
    const std::string gzip = Gzip("abc");
    const std::string chunks = "5\r\n" + gzip.substr(0, 5) + "\r\n" +
                               absl::StrFormat("%x\r\n", gzip.size() - 5) + gzip.substr(5) +
                               "\r\n0\r\n\r\n";
    CHECK(Parse("POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" +
                    chunks,
                piece)
              .request->body == "abc");
    CHECK(Parse(PostOf(Gzip(std::string(65, 'x'))), piece).code == 413);
    CHECK(Parse(PostOf(Gzip(std::string(100'000, 'x')).substr(0, 60)), piece).code == 413);
    CHECK(Parse(PostOf("no gzip"), piece).code == 400);
    CHECK(Parse(PostOf(gzip.substr(0, gzip.size() - 1)), piece).code == 400);
    CHECK(Parse(PostOf(gzip + "x"), piece).code == 400);
  }
  CHECK(Parse(PostOf("as it is", "identity"), 99).request->body == "as it is");
  CHECK(Parse(PostOf("xyz", "br"), 99).request->head.content_encoding == "br");
}

TEST_CASE("a target may be a whole URI", "[serving]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"http://host/v2/x?y=1", "/v2/x?y=1"},
      {"HTTPS://host:8000/v2", "/v2"},
      {"http://host", "/"},
      {"http://host?y=1", "/?y=1"},
      {"/http://host/v2", "/http://host/v2"},
  };
  for (const auto& [target, path] : cases) {
    CHECK(Parse("GET " + target + " HTTP/1.1\r\n\r\n", 99).request->head.target == path);
  }
}

TEST_CASE("keep-alive and expectations are read", "[serving]") {
  CHECK_FALSE(Parse("GET / HTTP/1.0\r\n\r\n", 99).request->head.keep_alive);
  CHECK(Parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 99).request->head.keep_alive);
  CHECK_FALSE(Parse("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 99).request->head.keep_alive);
  CHECK(Parse("POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\nx", 99)
            .request->head.expects_continue);
}

TEST_CASE("malformed requests are refused", "[serving]") {
  for (const std::string bytes :
       {"garbage\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "\x16\x03\x01\x02 TLS hello\r\n\r\n"}) {
    INFO(bytes);
    CHECK(Parse(bytes, 1).code == 400);
    CHECK(Parse(bytes, 1000).code == 400);
  }
}

TEST_CASE("of the encodings of a transfer only chunked is read", "[serving]") {
  for (const std::string lines :
       {"Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\n", "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding:\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n"}) {
    INFO(lines);
    HttpParser parser(kLimits);
    const auto progress = parser.Take("POST / HTTP/1.1\r\n" + lines + "\r\n");
    CHECK(progress.code == 400);
    // The connection has to be closed.
    CHECK(parser.state() != State::kDone);
  }
  CHECK(Parse("POST / HTTP/1.1\r\nTransfer-Encoding:  Chunked \r\n\r\n0\r\n\r\n", 99).request);
}

TEST_CASE("headers and bodies have a limit", "[serving]") {
  const std::string large = "GET / HTTP/1.1\r\nX: " + std::string(256, 'x') + "\r\n\r\n";
  CHECK(Parse(large, 1000).code == 431);
  CHECK(Parse(large, 1).code == 431);
  CHECK(Parse("GET /" + std::string(256, 'x'), 100).code == 431);
  // Each byte counts, in whatever pieces they arrive.
  for (const size_t lines : {1, 3}) {
    std::string head = "GET / HTTP/1.1\r\n";
    for (size_t line = 1; line < lines; ++line) head += "Y: 1\r\n";
    head += "X: ";
    const std::string full = head + std::string(252 - head.size(), 'x') + "\r\n\r\n";
    const std::string over = head + std::string(253 - head.size(), 'x') + "\r\n\r\n";
    for (const size_t piece : {1, 2, 7, 1000}) {
      CAPTURE(lines, piece);
      CHECK(Parse(full, piece).request);
      CHECK(Parse(over, piece).code == 431);
      CHECK(Parse(over.substr(0, 256), piece).code == 431);
    }
  }
  // Refused before the body is sent.
  CHECK(Parse("POST / HTTP/1.1\r\nContent-Length: 65\r\n\r\n", 1).code == 413);
  CHECK(Parse("POST / HTTP/1.1\r\nContent-Length: 64\r\n\r\n" + std::string(64, 'x'), 9).request);
  CHECK(Parse("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n" + std::string(65, 'x'),
              1000)
            .code == 413);
}

TEST_CASE("responses have a status line and a length", "[serving]") {
  HttpResponse response = HttpResponse::Error(503, "busy\n");
  response.headers.emplace_back("Retry-After", "1");
  CHECK(ResponseHead(response, false) + response.body ==
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        "Content-Length: 18\r\nRetry-After: 1\r\nConnection: close\r\n\r\n{\"error\":\"busy\\n\"}");
  CHECK(ResponseHead({}, true) ==
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n");
}

}  // namespace simurgh
