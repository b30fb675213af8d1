#include "services/runtime/tcp_listener.h"

#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

struct HostAndPort {
  std::string host;
  std::string port;
};

// "host:port" or "[v6 address]:port".
std::optional<HostAndPort> SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) return std::nullopt;
  HostAndPort result{address.substr(0, colon), address.substr(colon + 1)};
  uint32_t port = 0;
  for (const char c : result.port) {
    if (c < '0' || c > '9') return std::nullopt;
    port = 10 * port + static_cast<uint32_t>(c - '0');
    if (port > 65'535) return std::nullopt;
  }
  if (result.host.front() == '[' && result.host.back() == ']') {
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (result.host.find(':') != std::string::npos) {
    return std::nullopt;
  }
  return result;
}

Status ListenOn(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, const std::string& place) {
  boost::system::error_code error;
  if (acceptor.is_open()) acceptor.close();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return absl::OkStatus();
  if (error == asio::error::address_in_use) {
    return absl::AlreadyExistsError(absl::StrCat(
        place, " is in use by another process; choose another port, or 0 for any free one"));
  }
  return absl::UnavailableError(
      absl::StrCat(place, ": cannot listen: ", error.message(),
                   error == asio::error::no_descriptors
                       ? RemedyOf(error.value())
                       : "; give an address of this host, with a port above 1023"));
}

}  // namespace

StatusOr<TcpListener> ListenAt(boost::asio::any_io_executor executor, const std::string& address,
                               const std::string& key) {
  const std::string place = absl::StrCat(key, ": '", address, "'");
  const auto parts = SplitAddress(address);
  if (!parts.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, " is not host:port; write for example 127.0.0.1:9100"));
  }
  boost::system::error_code error;
  tcp::resolver resolver(executor);
  const auto found = resolver.resolve(parts->host, parts->port, tcp::resolver::passive, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": host cannot be resolved: ", error.message(), "; correct the host"));
  }
  TcpListener listener{.acceptor = tcp::acceptor(std::move(executor)), .address = ""};
  Status status;
  for (const auto& entry : found) {
    status = ListenOn(listener.acceptor, entry.endpoint(), place);
    if (!status.ok()) continue;
    std::ostringstream text;
    text << listener.acceptor.local_endpoint();
    listener.address = text.str();
    listener.is_loopback = listener.acceptor.local_endpoint().address().is_loopback();
    return listener;
  }
  return status;
}

}  // namespace simurgh
