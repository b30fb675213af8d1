#include "bench/micro/worker/scrape.h"

#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

namespace simurgh::bench {
namespace {

namespace asio = boost::asio;

std::string Get(const std::string& address, const std::string& path) {
  const size_t colon = address.rfind(':');
  asio::io_context context;
  asio::ip::tcp::socket socket(context);
  boost::system::error_code error;
  socket.connect({asio::ip::make_address(address.substr(0, colon)),
                  static_cast<uint16_t>(std::stoi(address.substr(colon + 1)))},
                 error);
  if (error) return "";
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", address, "\r\nConnection: close\r\n\r\n");
  asio::write(socket, asio::buffer(request), error);
  std::string answer;
  asio::read(socket, asio::dynamic_buffer(answer), error);
  return answer;
}

}  // namespace

StatusOr<Series> Scrape(const std::string& address) {
  const std::string answer = Get(address, "/metrics");
  Series series;
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.rfind(' ');
    double value = 0;
    if (line.starts_with('#') || blank == std::string::npos) continue;
    if (absl::SimpleAtod(line.substr(blank + 1), &value)) series[line.substr(0, blank)] = value;
  }
  if (series.empty()) return absl::UnavailableError(absl::StrCat(address, " tells no metrics"));
  return series;
}

double Growth(const Series& before, const Series& after, const std::string& series) {
  const auto last = after.find(series);
  if (last == after.end()) return 0;
  const auto first = before.find(series);
  return last->second - (first == before.end() ? 0 : first->second);
}

}  // namespace simurgh::bench
