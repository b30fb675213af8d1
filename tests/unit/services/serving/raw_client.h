#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <sys/socket.h>
#include <sys/time.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

namespace simurgh {

// A connection that sends raw bytes. Reads end after 20 s.
class RawClient {
 public:
  using tcp = boost::asio::ip::tcp;

  explicit RawClient(const std::string& address) : socket_(context_) {
    const size_t colon = address.rfind(':');
    socket_.connect(tcp::endpoint(boost::asio::ip::make_address(address.substr(0, colon)),
                                  static_cast<uint16_t>(std::stoi(address.substr(colon + 1)))));
    const timeval timeout{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }

  // Returns whether the server has taken the bytes.
  bool Send(const std::string& bytes) {
    boost::system::error_code error;
    boost::asio::write(socket_, boost::asio::buffer(bytes), error);
    return !error;
  }

  // The next response, with its header; empty at the end of the connection.
  std::string ReadResponse() {
    boost::system::error_code error;
    const size_t head =
        boost::asio::read_until(socket_, boost::asio::dynamic_buffer(rest_), "\r\n\r\n", error);
    if (error) return "";
    const size_t field = rest_.find("Content-Length: ");
    const size_t body = field < head ? std::stoul(rest_.substr(field + 16)) : 0;
    if (rest_.size() < head + body) {
      boost::asio::read(socket_, boost::asio::dynamic_buffer(rest_),
                        boost::asio::transfer_exactly(head + body - rest_.size()), error);
    }
    std::string response = rest_.substr(0, head + body);
    rest_.erase(0, head + body);
    return response;
  }

  std::string ReadToEnd() {
    boost::system::error_code error;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(rest_), error);
    return std::move(rest_);
  }

  // Whether the server closes the connection, without sending anything.
  bool IsClosed() { return ReadToEnd().empty(); }

 private:
  boost::asio::io_context context_;
  tcp::socket socket_;
  std::string rest_;
};

}  // namespace simurgh
