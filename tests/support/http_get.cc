#include "tests/support/http_get.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

namespace simurgh::testing {

std::string HttpGet(const std::string& address, const std::string& path) {
  namespace asio = boost::asio;
  const size_t colon = address.rfind(':');
  asio::io_context context;
  asio::ip::tcp::socket socket(context);
  boost::system::error_code error;
  socket.connect({asio::ip::make_address(address.substr(0, colon)),
                  static_cast<uint16_t>(std::stoi(address.substr(colon + 1)))},
                 error);
  if (error) return "";
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
  asio::write(socket, asio::buffer(request), error);
  std::string answer;
  asio::read(socket, asio::dynamic_buffer(answer), error);
  return answer;
}

}  // namespace simurgh::testing
