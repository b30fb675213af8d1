#include "rpc/tls_error.h"

#include <string>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "absl/strings/str_cat.h"
#include <boost/asio/ssl/error.hpp>

#include "rpc/tls_stream.h"

namespace simurgh::rpc {
namespace {

using ErrorCode = boost::system::error_code;

constexpr int kNotTls = 1;
constexpr int kClosed = 2;

std::string State(int value) {
  if (value == kNotTls) return "the client does not use it";
  return "the server closed the connection in the handshake; it may not use TLS";
}

std::string Verdict(int value) {
  return absl::StrCat("the peer's certificate is not trusted: ",
                      X509_verify_cert_error_string(value));
}

std::string Reason(int value) {
  const char* const reason = ERR_reason_error_string(static_cast<unsigned long>(value));
  return reason == nullptr ? absl::StrCat("OpenSSL error ", value) : reason;
}

std::string Alert(int value) { return "the peer refused this end: " + Reason(value); }

// Error codes whose texts the function gives.
template <std::string (*kDescribe)(int value)>
const boost::system::error_category& Codes() {
  struct Category : boost::system::error_category {
    const char* name() const noexcept override { return "tls"; }
    std::string message(int value) const override { return "TLS: " + kDescribe(value); }
  };
  static const Category category;
  return category;
}

bool HasHungUp(const ErrorCode& error) {
  return error == boost::asio::error::eof || error == boost::asio::ssl::error::stream_truncated ||
         error == boost::asio::error::connection_reset || error == boost::asio::error::broken_pipe;
}

}  // namespace

ErrorCode NotTls() { return {kNotTls, Codes<State>()}; }

ErrorCode ExplainTls(const ErrorCode& error, long verify_result) {
  if (!error) return error;
  if (verify_result != X509_V_OK) return {static_cast<int>(verify_result), Codes<Verdict>()};
  if (HasHungUp(error)) return {kClosed, Codes<State>()};
  if (error.category() != boost::asio::error::get_ssl_category()) return error;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  return {error.value(), reason > SSL_AD_REASON_OFFSET ? Codes<Alert>() : Codes<Reason>()};
}

bool IsTlsRefusal(const ErrorCode& error) {
  return error == NotTls() || error.category() == Codes<Verdict>() ||
         error.category() == Codes<Alert>() || error.category() == Codes<Reason>();
}

}  // namespace simurgh::rpc
