#include "services/simurgh/scrape.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "rpc/address.h"
#include "rpc/async.h"

namespace simurgh {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr uint64_t kMaxBody = uint64_t{64} << 20;

Status Failure(const boost::system::error_code& error) {
  if (error == beast::error::timeout) return absl::DeadlineExceededError("no answer in time");
  return absl::UnavailableError(error.message());
}

asio::awaitable<StatusOr<HttpAnswer>> Get(HttpTarget target, std::chrono::milliseconds timeout) {
  const auto address = rpc::ParseAddress(target.address);
  if (!address.ok()) co_return address.status();
  beast::tcp_stream stream(co_await asio::this_coro::executor);
  asio::ip::tcp::resolver resolver(stream.get_executor());
  const auto [unknown, found] =
      co_await resolver.async_resolve(address->host, absl::StrCat(address->port), rpc::kNoThrow);
  if (unknown) co_return Failure(unknown);
  stream.expires_after(timeout);
  const auto [refused, endpoint] = co_await stream.async_connect(found, rpc::kNoThrow);
  if (refused) co_return Failure(refused);
  http::request<http::empty_body> request(http::verb::get, target.path, /*version=*/11);
  request.set(http::field::host, target.address);
  request.keep_alive(false);
  const auto sent_at = std::chrono::steady_clock::now();
  const auto [unsent, sent] = co_await http::async_write(stream, request, rpc::kNoThrow);
  if (unsent) co_return Failure(unsent);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxBody);
  const auto [unread, received] = co_await http::async_read(stream, buffer, parser, rpc::kNoThrow);
  if (unread) co_return Failure(unread);
  co_return HttpAnswer{.code = parser.get().result_int(),
                       .body = std::move(parser.get().body()),
                       .sent = sent_at,
                       .received = std::chrono::steady_clock::now()};
}

}  // namespace

std::vector<StatusOr<HttpAnswer>> HttpGetAll(const std::vector<HttpTarget>& targets,
                                             std::chrono::milliseconds timeout) {
  std::vector<StatusOr<HttpAnswer>> answers(targets.size(), absl::UnavailableError("not called"));
  asio::io_context context;
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto get = [&, i]() -> asio::awaitable<void> {
      answers[i] = co_await Get(targets[i], timeout);
    };
    asio::co_spawn(context, get, asio::detached);
  }
  context.run();
  return answers;
}

namespace {

// Returns the end of the name that begins `text`.
size_t NameEnd(std::string_view text) {
  const auto is_part = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == ':';
  };
  return static_cast<size_t>(std::ranges::find_if_not(text, is_part) - text.begin());
}

// Parses `{name="value",...}` and removes it from the text. Returns whether it is valid.
bool TakeLabels(std::string_view& text, MetricsText::Labels& labels) {
  text.remove_prefix(1);
  while (!text.starts_with('}')) {
    const size_t end = NameEnd(text);
    const std::string name(text.substr(0, end));
    text.remove_prefix(end);
    if (name.empty() || !text.starts_with("=\"")) return false;
    text.remove_prefix(2);
    std::string& value = labels[name];
    for (; !text.empty() && text.front() != '"'; text.remove_prefix(1)) {
      if (text.front() == '\\') {
        text.remove_prefix(1);
        if (text.empty()) return false;
        value += text.front() == 'n' ? '\n' : text.front();
      } else {
        value += text.front();
      }
    }
    if (text.empty()) return false;
    text.remove_prefix(1);
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  text.remove_prefix(1);
  return true;
}

}  // namespace

StatusOr<MetricsText> MetricsText::Parse(std::string_view text) {
  MetricsText metrics;
  size_t number = 0;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    std::string_view line(part.data(), part.size());
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const Status malformed =
        absl::InvalidArgumentError(absl::StrCat("line ", number, " of the metrics is malformed"));
    const size_t end = NameEnd(line);
    const std::string name(line.substr(0, end));
    line.remove_prefix(end);
    Labels labels;
    if (name.empty() || (line.starts_with('{') && !TakeLabels(line, labels))) return malformed;
    const std::vector<std::string> words =
        absl::StrSplit(absl::string_view(line.data(), line.size()), ' ', absl::SkipEmpty());
    double value = 0;
    if (words.empty() || words.size() > 2 || !absl::SimpleAtod(words[0], &value)) return malformed;
    metrics.series_[name].emplace_back(std::move(labels), value);
  }
  return metrics;
}

std::optional<double> MetricsText::Sum(const std::string& name, const Labels& labels) const {
  const auto found = series_.find(name);
  if (found == series_.end()) return std::nullopt;
  std::optional<double> sum;
  for (const auto& [own, value] : found->second) {
    if (!std::ranges::includes(own, labels)) continue;
    sum = sum.value_or(0) + value;
  }
  return sum;
}

std::optional<std::string> MetricsText::Label(const std::string& label,
                                              const std::string& name) const {
  const auto found = series_.find(name);
  if (found == series_.end()) return std::nullopt;
  const Labels& labels = found->second.front().first;
  const auto value = labels.find(label);
  return value == labels.end() ? std::nullopt : std::optional(value->second);
}

}  // namespace simurgh
