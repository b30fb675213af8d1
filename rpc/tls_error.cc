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

class Category : public boost::system::error_category {
 public:
  Category(const char* name, std::string (*describe)(int value))
      : name_(name), describe_(describe) {}
  const char* name() const noexcept override { return name_; }
  std::string message(int value) const override { return absl::StrCat("TLS: ", describe_(value)); }

 private:
  const char* const name_;
  std::string (*const describe_)(int value);
};

std::string Reason(int value) {
  const char* const reason = ERR_reason_error_string(static_cast<unsigned long>(value));
  return reason == nullptr ? absl::StrCat("OpenSSL error ", value) : reason;
}

const Category& States() {
  static const Category category("tls", [](int value) -> std::string {
    if (value == static_cast<int>(TlsError::kNotTls)) return "the client does not use it";
    return "the server closed the connection in the handshake; it may not use TLS";
  });
  return category;
}

const Category& Verdicts() {
  static const Category category("tls-certificate", [](int value) {
    return absl::StrCat("the peer's certificate is not trusted: ",
                        X509_verify_cert_error_string(value));
  });
  return category;
}

const Category& Alerts() {
  static const Category category("tls-alert", [](int value) {
    return absl::StrCat("the peer refused this end: ", Reason(value));
  });
  return category;
}

const Category& Others() {
  static const Category category("tls-openssl", [](int value) { return Reason(value); });
  return category;
}

bool HasHungUp(const ErrorCode& error) {
  return error == boost::asio::error::eof || error == boost::asio::ssl::error::stream_truncated ||
         error == boost::asio::error::connection_reset || error == boost::asio::error::broken_pipe;
}

}  // namespace

ErrorCode TlsErrorCode(TlsError error) { return {static_cast<int>(error), States()}; }

ErrorCode ExplainTls(const ErrorCode& error, long verify_result) {
  if (!error) return error;
  if (verify_result != X509_V_OK) return {static_cast<int>(verify_result), Verdicts()};
  if (HasHungUp(error)) return TlsErrorCode(TlsError::kClosed);
  if (error.category() != boost::asio::error::get_ssl_category()) return error;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  return {error.value(), reason > SSL_AD_REASON_OFFSET ? Alerts() : Others()};
}

bool IsTlsRefusal(const ErrorCode& error) {
  return error == TlsErrorCode(TlsError::kNotTls) || error.category() == Verdicts() ||
         error.category() == Alerts() || error.category() == Others();
}

}  // namespace simurgh::rpc
