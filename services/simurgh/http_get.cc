#include "services/simurgh/http_get.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
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

}  // namespace simurgh
