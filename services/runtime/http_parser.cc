#include "services/runtime/http_parser.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
// Beast asserts that 5 bytes of a last chunk have arrived when it looks for more. With an empty
// body there may be 4, which it parses correctly.
#define BOOST_DISABLE_ASSERTS
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/text.h"
#include "services/runtime/gzip_body.h"

namespace simurgh {

namespace http = boost::beast::http;
namespace asio = boost::asio;

namespace {

std::string Text(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Returns the path of a target, which may be a whole URI, as proxies send it.
// Source: RFC 9112, 3.2.2.
std::string PathOf(std::string target) {
  const size_t scheme = absl::StartsWithIgnoreCase(target, "http://")    ? 7
                        : absl::StartsWithIgnoreCase(target, "https://") ? 8
                                                                         : 0;
  if (scheme == 0) return target;
  const size_t path = target.find_first_of("/?", scheme);
  if (path == target.npos) return "/";
  return target[path] == '/' ? target.substr(path) : absl::StrCat("/", target.substr(path));
}

}  // namespace

class HttpParser::Impl {
 public:
  explicit Impl(const Limits& limits) : limits_(limits) {
    // What Beast counts depends on the pieces in which bytes arrive; Take() counts exactly.
    parser_.header_limit(2 * limits.header_bytes);
    parser_.body_limit(limits.body_bytes);
    parser_.eager(false);
  }

  Progress Take(std::string_view bytes) {
    Progress progress;
    while (progress.used < bytes.size() && !parser_.is_done()) {
      const bool in_header = !parser_.is_header_done();
      boost::beast::error_code error;
      const std::string_view rest = bytes.substr(progress.used);
      const size_t used = parser_.put(asio::const_buffer(rest.data(), rest.size()), error);
      progress.used += used;
      if (in_header) {
        header_bytes_ += used;
        // At least one more byte follows bytes that are no whole line.
        const size_t unread = error == http::error::need_more ? rest.size() - used + 1 : 0;
        if (header_bytes_ + unread > limits_.header_bytes) {
          is_refused_ = true;
          Refuse(http::error::header_limit, progress);
          break;
        }
      }
      if (error == http::error::need_more) break;
      if (error) {
        Refuse(error, progress);
        break;
      }
      if (in_header && parser_.is_header_done()) {
        ReadHead();
        CheckEncoding(progress);
        break;
      }
    }
    if (gzip_ && progress.code == 0) Decompress(progress);
    return progress;
  }

  State state() const {
    if (parser_.is_done() && !is_refused_) return State::kDone;
    return parser_.is_header_done() ? State::kBody : State::kHead;
  }
  size_t body_bytes() const { return gzip_ ? gzip_->size() : parser_.get().body().size(); }
  const HttpHead& head() const { return head_; }

  HttpRequest Release() {
    return {std::move(head_), gzip_ ? gzip_->Release() : std::move(parser_.get().body())};
  }

 private:
  void ReadHead() {
    const auto& message = parser_.get();
    head_.method = Text(message.method_string());
    head_.target = PathOf(Text(message.target()));
    head_.authorization = Text(message[http::field::authorization]);
    const std::string encoding = Text(message[http::field::content_encoding]);
    if (absl::EqualsIgnoreCase(encoding, "gzip") || absl::EqualsIgnoreCase(encoding, "x-gzip")) {
      gzip_.emplace(limits_.body_bytes);
    } else if (!absl::EqualsIgnoreCase(encoding, "identity")) {
      head_.content_encoding = encoding;
    }
    head_.inference_header_length = Text(message["Inference-Header-Content-Length"]);
    head_.keep_alive = message.keep_alive();
    head_.expects_continue =
        absl::EqualsIgnoreCase(Text(message[http::field::expect]), "100-continue");
  }

  // Moves the part of the body that the parser has into the decompressor.
  void Decompress(Progress& progress) {
    std::string& body = parser_.get().body();
    const GzipBody::Result result = gzip_->Take(body);
    body.clear();
    if (result == GzipBody::Result::kTooLarge) {
      is_refused_ = true;
      return Refuse(http::error::body_limit, progress);
    }
    const bool is_cut = result == GzipBody::Result::kOk && parser_.is_done() && !gzip_->is_whole();
    if (result == GzipBody::Result::kOk && !is_cut) return;
    is_refused_ = true;
    progress.code = 400;
    progress.message =
        absl::StrCat("the body is ", is_cut ? "a part of" : "not",
                     " gzip, as Content-Encoding says; send it whole, or as it is without the "
                     "header line");
  }

  // Refuses transfer encodings other than "chunked". If a proxy and this parser disagreed on the
  // end of a body, a part of the body could pass for the next request.
  void CheckEncoding(Progress& progress) {
    const auto& message = parser_.get();
    const size_t lines = message.count(http::field::transfer_encoding);
    if (lines == 0) return;
    const std::string encoding = Text(message[http::field::transfer_encoding]);
    if (lines == 1 && absl::EqualsIgnoreCase(encoding, "chunked")) return;
    is_refused_ = true;
    progress.code = 400;
    progress.message = absl::StrCat("Transfer-Encoding '", PrintableLine(encoding),
                                    "' is not supported; send chunked, or a Content-Length");
  }

  void Refuse(const boost::beast::error_code& error, Progress& progress) const {
    if (error == http::error::header_limit) {
      progress.code = 431;
      progress.message = absl::StrCat("the header has more than ", limits_.header_bytes,
                                      " bytes; send fewer or shorter header lines");
    } else if (error == http::error::body_limit) {
      progress.code = 413;
      progress.message = absl::StrCat("the body has more than ", limits_.body_bytes,
                                      " bytes; send fewer rows, or raise serving.max_body_bytes");
    } else {
      progress.code = 400;
      progress.message =
          absl::StrCat("the request is not HTTP/1.1: ", error.message(), "; correct it");
    }
  }

  const Limits limits_;
  http::request_parser<http::string_body> parser_;
  HttpHead head_;
  size_t header_bytes_ = 0;       // Size of the header read so far.
  std::optional<GzipBody> gzip_;  // Set if the body is in gzip.
  bool is_refused_ = false;       // The request never counts as done, even if no bytes are left.
};

HttpParser::HttpParser(const Limits& limits) : impl_(std::make_unique<Impl>(limits)) {}
HttpParser::~HttpParser() = default;

HttpParser::Progress HttpParser::Take(std::string_view bytes) { return impl_->Take(bytes); }
HttpParser::State HttpParser::state() const { return impl_->state(); }
size_t HttpParser::body_bytes() const { return impl_->body_bytes(); }
const HttpHead& HttpParser::head() const { return impl_->head(); }
HttpRequest HttpParser::Release() { return impl_->Release(); }

HttpResponse HttpResponse::Error(int code, std::string_view message) {
  HttpResponse response{.code = code, .body = "{\"error\":"};
  AppendJsonText(message, response.body);
  response.body += "}";
  return response;
}

std::string ResponseHead(const HttpResponse& response, bool keep_alive) {
  const auto reason = http::obsolete_reason(http::int_to_status(response.code));
  std::string head = absl::StrCat("HTTP/1.1 ", response.code, " ", Text(reason),
                                  "\r\nContent-Type: ", response.content_type,
                                  "\r\nContent-Length: ", response.body.size(), "\r\n");
  for (const auto& [name, value] : response.headers) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  absl::StrAppend(&head, keep_alive ? "" : "Connection: close\r\n", "\r\n");
  return head;
}

}  // namespace simurgh
