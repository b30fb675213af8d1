#include "rpc/tls.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

#include "base/check.h"
#include "rpc/call.h"
#include "rpc/openssl.h"

namespace simurgh::rpc {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

using Certificates = std::vector<OpenSslPointer<X509>>;

Status Wrong(const char* what, const std::string& file, const std::string& why,
             const std::string& remedy) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": '", file, "' ", why, "; ", remedy));
}

StatusOr<std::string> ReadFile(const char* what, const std::string& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  if (in) in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad()) {
    return Wrong(what, file, absl::StrCat("cannot be read: ", std::strerror(errno)),
                 "name a PEM file that this process may read");
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxFileBytes) {
    return Wrong(what, file, absl::StrCat("has more than ", kMaxFileBytes, " bytes"),
                 "name a PEM file");
  }
  return text;
}

OpenSslPointer<BIO> Reader(const std::string& text) {
  return OpenSslPointer<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

StatusOr<Certificates> ReadCertificates(const char* what, const std::string& file) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string text, ReadFile(what, file));
  const OpenSslPointer<BIO> reader = Reader(text);
  Certificates certificates;
  while (X509* one = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(one);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty()) {
    return Wrong(what, file, "holds no certificate in PEM form",
                 "name a file with -----BEGIN CERTIFICATE-----");
  }
  if (!at_end) {
    return Wrong(what, file, absl::StrCat("is damaged after certificate ", certificates.size()),
                 "copy the file again");
  }
  return certificates;
}

StatusOr<OpenSslPointer<EVP_PKEY>> ReadKey(const std::string& file) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string text, ReadFile("key", file));
  // Refuses encrypted keys, without a prompt for a password.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  OpenSslPointer<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(Reader(text).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return Wrong("key", file, "holds no private key in PEM form, or an encrypted one",
                 "decrypt it with 'openssl pkey', readable only by the daemons' user");
  }
  return key;
}

std::string Text(const ASN1_TIME* time) {
  const OpenSslPointer<BIO> out(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(out.get(), time);
  return TextOf(out.get());
}

Status CheckDates(const char* what, const std::string& file, const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return Wrong(what, file, absl::StrCat("expired at ", Text(X509_get0_notAfter(certificate))),
                 "issue a new one");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return Wrong(what, file,
                 absl::StrCat("is not valid before ", Text(X509_get0_notBefore(certificate))),
                 "check this machine's clock");
  }
  return absl::OkStatus();
}

// Both purposes: a worker is a client of servers and a server of trainers.
Status CheckPurpose(const std::string& file, X509* certificate) {
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    if (X509_check_purpose(certificate, purpose, 0) == 1) continue;
    return Wrong("certificate", file,
                 absl::StrCat("is not meant for TLS ",
                              purpose == X509_PURPOSE_SSL_SERVER ? "servers" : "clients"),
                 "issue it with the extended key usages serverAuth and clientAuth");
  }
  return absl::OkStatus();
}

// Checks the first certificate against the authorities; the others are intermediate.
Status CheckChain(const TlsOptions& options, const Certificates& chain,
                  const Certificates& authorities) {
  const OpenSslPointer<X509_STORE> store(X509_STORE_new());
  for (const auto& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  const OpenSslPointer<STACK_OF(X509)> between(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between.get(), chain[i].get());
  const OpenSslPointer<X509_STORE_CTX> check(X509_STORE_CTX_new());
  X509_STORE_CTX_init(check.get(), store.get(), chain[0].get(), between.get());
  const bool trusted = X509_verify_cert(check.get()) == 1;
  ERR_clear_error();
  if (trusted) return absl::OkStatus();
  const char* const why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get()));
  return Wrong(
      "certificate", options.certificate_file,
      absl::StrCat("is not trusted by '", options.authority_file, "': ", why),
      "name the authority that issued it, and append intermediate certificates to the file");
}

// OpenSSL may still refuse the parts, e.g. keys too weak for its policy.
Status Use(SSL_CTX* context, const TlsOptions& options, const Certificates& chain, EVP_PKEY* key,
           const Certificates& authorities) {
  bool used = SSL_CTX_use_certificate(context, chain[0].get()) == 1;
  for (size_t i = 1; used && i < chain.size(); ++i) {
    used = SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1;
  }
  used = used && SSL_CTX_use_PrivateKey(context, key) == 1;
  for (const auto& authority : authorities) {
    used = used && X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) == 1;
  }
  if (used) return absl::OkStatus();
  const char* const why = ERR_reason_error_string(ERR_peek_last_error());
  const std::string reason = why == nullptr ? "unknown reason" : why;
  ERR_clear_error();
  return Wrong("certificate", options.certificate_file,
               absl::StrCat("is refused by OpenSSL: ", reason),
               "use an ECDSA key of 256 bits or an RSA key of at least 2048 bits");
}

// Returns whether a DNS name matches the pattern. "*." stands for any first label.
bool Matches(const std::string& pattern, const std::string& name) {
  if (!pattern.starts_with("*.")) return absl::EqualsIgnoreCase(pattern, name);
  const size_t dot = name.find('.');
  return dot != 0 && dot != std::string::npos &&
         absl::EqualsIgnoreCase(pattern.substr(1), name.substr(dot));
}

}  // namespace

TlsContext::TlsContext(const TlsOptions& options)
    : options_(options), native_(SSL_CTX_new(TLS_method()), &SSL_CTX_free) {
  SIMURGH_CHECK(native_ != nullptr) << "SSL_CTX_new failed";
  SSL_CTX_set_min_proto_version(native(), TLS1_3_VERSION);
  SSL_CTX_set_verify(native(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // Connections are few and long, so session resumption would not help.
  SSL_CTX_set_session_cache_mode(native(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(native(), 0);
}

Status TlsContext::CheckRole(const std::string& role, std::span<const std::string> names) const {
  const auto& allowed = options_.allowed_names;
  if (std::ranges::all_of(allowed, [](const auto& entry) { return entry.second.empty(); })) {
    return absl::OkStatus();
  }
  const auto found = allowed.find(role);
  if (found != allowed.end()) {
    if (found->second.empty()) return absl::OkStatus();
    for (const std::string& pattern : found->second) {
      if (std::ranges::any_of(names, [&](const auto& name) { return Matches(pattern, name); })) {
        return absl::OkStatus();
      }
    }
  }
  return WithCloseReason(
      absl::UnauthenticatedError(absl::StrCat(
          "TLS: a certificate for '", absl::StrJoin(names, ", "), "' does not permit the role '",
          role, "'; issue one with a permitted name, or extend rpc.tls.allowed_names")),
      CloseReason::kTls);
}

StatusOr<std::shared_ptr<const TlsContext>> TlsContext::Load(const TlsOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(const Certificates chain,
                           ReadCertificates("certificate", options.certificate_file));
  SIMURGH_ASSIGN_OR_RETURN(const auto key, ReadKey(options.key_file));
  SIMURGH_ASSIGN_OR_RETURN(const Certificates authorities,
                           ReadCertificates("authority", options.authority_file));
  SIMURGH_RETURN_IF_ERROR(CheckDates("certificate", options.certificate_file, chain[0].get()));
  for (const auto& authority : authorities) {
    SIMURGH_RETURN_IF_ERROR(CheckDates("authority", options.authority_file, authority.get()));
  }
  if (X509_check_private_key(chain[0].get(), key.get()) != 1) {
    ERR_clear_error();
    return Wrong("key", options.key_file,
                 absl::StrCat("does not match certificate '", options.certificate_file, "'"),
                 "name the key of that certificate");
  }
  SIMURGH_RETURN_IF_ERROR(CheckPurpose(options.certificate_file, chain[0].get()));
  SIMURGH_RETURN_IF_ERROR(CheckChain(options, chain, authorities));
  auto context = std::make_shared<TlsContext>(options);
  SIMURGH_RETURN_IF_ERROR(Use(context->native(), options, chain, key.get(), authorities));
  return context;
}

namespace {

namespace ssl = asio::ssl;
using ErrorCode = Stream::ErrorCode;
using Side = ssl::stream_base::handshake_type;

// Error codes of TLS with texts for operators.

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

bool IsHangUp(const ErrorCode& error) {
  return error == boost::asio::error::eof || error == boost::asio::ssl::error::stream_truncated ||
         error == boost::asio::error::connection_reset || error == boost::asio::error::broken_pipe;
}

// The client does not use TLS.
ErrorCode NotTls() { return {kNotTls, Codes<State>()}; }

// Combines Asio's error of a handshake or read with OpenSSL's verdict on the peer's certificate
// (SSL_get_verify_result). Returns other errors unchanged.
ErrorCode ExplainTls(const ErrorCode& error, long verify_result) {
  if (!error) return error;
  if (verify_result != X509_V_OK) return {static_cast<int>(verify_result), Codes<Verdict>()};
  if (IsHangUp(error)) return {kClosed, Codes<State>()};
  if (error.category() != boost::asio::error::get_ssl_category()) return error;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  return {error.value(), reason > SSL_AD_REASON_OFFSET ? Codes<Alert>() : Codes<Reason>()};
}

// Bytes queued for encryption; as many again are being encrypted and sent.
constexpr size_t kPendingBytes = 65'536;
// Time to send the last bytes after Close().
constexpr std::chrono::seconds kLinger{1};
constexpr unsigned char kHandshakeRecord = 0x16;  // RFC 8446, 5.1.

std::vector<std::string> DnsNames(const X509& certificate) {
  std::vector<std::string> names;
  auto* const all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all, i);
    if (name->type != GEN_DNS) continue;
    const ASN1_IA5STRING* const text = name->d.dNSName;
    names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                       static_cast<size_t>(ASN1_STRING_length(text)));
  }
  GENERAL_NAMES_free(all);
  return names;
}

// Outlives its owner until its last bytes are sent.
class TlsStream : public Stream, public std::enable_shared_from_this<TlsStream> {
 public:
  TlsStream(Socket socket, std::shared_ptr<const TlsContext> context, Side side,
            std::string plain_refusal)
      : peer_(PeerName(socket)),
        context_(std::move(context)),
        side_(side),
        plain_refusal_(std::move(plain_refusal)),
        stream_(std::move(socket), SSL_new(context_->native())),
        linger_(stream_.get_executor()) {}

  // Requires the context's peer name, or `host` if it has none, in the server's certificate.
  void ExpectName(const std::string& host);

  Progress TryRead(std::span<const asio::mutable_buffer> buffers) override;
  [[nodiscard]] awaitable<Progress> Read(std::span<const asio::mutable_buffer> buffers,
                                         asio::cancellation_slot stop) override;
  Progress TryWrite(std::span<const asio::const_buffer> buffers) override;
  void WhenWritable(std::function<void(const ErrorCode&)> ready) override;
  void Close() override;
  bool hung_up() override { return HasHungUp(stream_.next_layer()); }
  bool copies() const override { return true; }
  bool is_trusted() override { return established_; }
  Status CheckRole(const std::string& role) override;
  std::string peer() const override { return peer_; }
  asio::any_io_executor executor() override { return stream_.get_executor(); }

 private:
  [[nodiscard]] awaitable<ErrorCode> Establish();
  [[nodiscard]] awaitable<ErrorCode> ShakeHands();
  // Sends `plain`, then waits until the peer closes.
  [[nodiscard]] awaitable<void> CloseAfter(std::string_view plain);
  void Flush();
  void CloseSocket() {
    linger_.cancel();
    ErrorCode ignored;
    stream_.next_layer().close(ignored);
  }

  const std::string peer_;
  const std::shared_ptr<const TlsContext> context_;
  const Side side_;
  const std::string plain_refusal_;
  ssl::stream<Socket> stream_;
  bool established_ = false;
  std::vector<std::byte> pending_;
  std::vector<std::byte> flushing_;  // Being written.
  std::function<void(const ErrorCode&)> ready_;
  ErrorCode failure_;  // Error of the handshake or of a write.
  bool closed_ = false;
  asio::steady_timer linger_;
};

void TlsStream::ExpectName(const std::string& host) {
  const std::string& name = context_->peer_name().empty() ? host : context_->peer_name();
  SSL* const handle = stream_.native_handle();
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(handle), name.c_str()) == 1) return;
  SSL_set_hostflags(handle, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  SSL_set1_host(handle, name.c_str());
  SSL_set_tlsext_host_name(handle, name.c_str());
}

Status TlsStream::CheckRole(const std::string& role) {
  const OpenSslPointer<X509> certificate(SSL_get1_peer_certificate(stream_.native_handle()));
  std::vector<std::string> names;
  if (certificate != nullptr) names = DnsNames(*certificate);
  return context_->CheckRole(role, names);
}

awaitable<ErrorCode> TlsStream::ShakeHands() {
  if (side_ == Side::server) {
    auto [error] = co_await stream_.next_layer().async_wait(Socket::wait_read, kNoThrow);
    unsigned char first = 0;
    const asio::mutable_buffer destination(&first, 1);
    if (!error) stream_.next_layer().receive(asio::buffer(destination), MSG_PEEK, error);
    if (error) co_return error;
    if (first != kHandshakeRecord) {
      co_await CloseAfter(plain_refusal_);
      co_return NotTls();
    }
  }
  auto [error] = co_await stream_.async_handshake(side_, kNoThrow);
  if (!error) co_return error;
  const long verdict = SSL_get_verify_result(stream_.native_handle());
  // OpenSSL has sent an alert with the reason.
  if (side_ == Side::server) co_await CloseAfter("");
  co_return ExplainTls(error, verdict);
}

awaitable<void> TlsStream::CloseAfter(std::string_view plain) {
  // Closing with unread bytes would reset the connection, and the peer could lose the reason.
  Socket& socket = stream_.next_layer();
  ErrorCode ignored;
  socket.send(asio::buffer(plain), 0, ignored);
  socket.shutdown(Socket::shutdown_send, ignored);
  std::array<std::byte, 4'096> scratch;
  for (;;) {
    auto [error, bytes] = co_await socket.async_read_some(asio::buffer(scratch), kNoThrow);
    if (error) co_return;
  }
}

awaitable<ErrorCode> TlsStream::Establish() {
  if (established_ || failure_) co_return failure_;
  const ErrorCode error = co_await ShakeHands();
  if (closed_) co_return asio::error::operation_aborted;
  failure_ = error;
  established_ = !error;
  if (established_ && !pending_.empty()) Flush();
  if (error && ready_) std::exchange(ready_, nullptr)(error);
  co_return error;
}

// Reads the rest of the decrypted record, which may hold several small frames.
Stream::Progress TlsStream::TryRead(std::span<const asio::mutable_buffer> buffers) {
  SSL* const handle = stream_.native_handle();
  size_t taken = 0;
  for (const asio::mutable_buffer& buffer : buffers) {
    const auto there = static_cast<size_t>(SSL_pending(handle));
    const size_t part = std::min(there, buffer.size());
    if (part != 0) SSL_read(handle, buffer.data(), static_cast<int>(part));
    taken += part;
  }
  return {taken == 0 ? asio::error::would_block : ErrorCode(), taken};
}

awaitable<Stream::Progress> TlsStream::Read(std::span<const asio::mutable_buffer> buffers,
                                            asio::cancellation_slot stop) {
  const auto self = shared_from_this();
  if (!established_) {
    const ErrorCode error = co_await Establish();
    if (error) co_return Progress{error, 0};
  }
  const auto state = co_await asio::this_coro::cancellation_state;
  const asio::cancellation_slot end = StopOr(stop, state.slot());
  auto [error, bytes] =
      co_await stream_.async_read_some(buffers, asio::bind_cancellation_slot(end, kNoThrow));
  if (closed_) co_return Progress{asio::error::operation_aborted, 0};
  // Frames have lengths, so truncation is detected without close_notify.
  if (error == ssl::error::stream_truncated) error = asio::error::eof;
  if (error.category() == asio::error::get_ssl_category()) error = ExplainTls(error, X509_V_OK);
  co_return Progress{error, bytes};
}

Stream::Progress TlsStream::TryWrite(std::span<const asio::const_buffer> buffers) {
  if (closed_) return {asio::error::operation_aborted, 0};
  if (failure_) return {failure_, 0};
  size_t room = kPendingBytes - pending_.size();
  if (room == 0) return {asio::error::would_block, 0};
  size_t taken = 0;
  for (const asio::const_buffer& buffer : buffers) {
    const auto* const data = static_cast<const std::byte*>(buffer.data());
    const size_t part = std::min(buffer.size(), room);
    pending_.insert(pending_.end(), data, data + part);
    taken += part;
    room -= part;
    if (room == 0) break;
  }
  if (established_ && flushing_.empty()) Flush();
  return {ErrorCode(), taken};
}

void TlsStream::Flush() {
  std::swap(pending_, flushing_);
  auto flushed = [this, self = shared_from_this()](const ErrorCode& error, size_t) {
    flushing_.clear();
    failure_ = error;
    if (!error && !pending_.empty()) {
      Flush();
    } else if (closed_) {
      CloseSocket();
    }
    if (ready_) std::exchange(ready_, nullptr)(error);
  };
  asio::async_write(stream_, asio::buffer(flushing_), std::move(flushed));
}

void TlsStream::WhenWritable(std::function<void(const ErrorCode&)> ready) {
  if (!failure_ && !closed_ && pending_.size() == kPendingBytes) {
    ready_ = std::move(ready);
    return;
  }
  ErrorCode error = failure_;
  if (closed_) error = asio::error::operation_aborted;
  asio::post(executor(), [ready = std::move(ready), error] { ready(error); });
}

void TlsStream::Close() {
  if (std::exchange(closed_, true)) return;
  if (auto ready = std::exchange(ready_, nullptr)) {
    asio::post(executor(), [ready = std::move(ready)] { ready(asio::error::operation_aborted); });
  }
  if (flushing_.empty()) return CloseSocket();
  // Sends the accepted bytes, as a socket would, and reads nothing.
  ErrorCode ignored;
  stream_.next_layer().shutdown(Socket::shutdown_receive, ignored);
  linger_.expires_after(kLinger);
  linger_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (!error) self->CloseSocket();
  });
}

// A handle whose end closes the stream.
std::shared_ptr<Stream> Owned(std::shared_ptr<TlsStream> stream) {
  Stream* const raw = stream.get();
  return {raw, [stream = std::move(stream)](Stream* /*raw*/) { stream->Close(); }};
}

}  // namespace

bool IsTlsRefusal(const ErrorCode& error) {
  return error == NotTls() || error.category() == Codes<Verdict>() ||
         error.category() == Codes<Alert>() || error.category() == Codes<Reason>();
}

std::shared_ptr<Stream> ConnectTls(Socket socket, std::shared_ptr<const TlsContext> context,
                                   const std::string& host) {
  auto stream =
      std::make_shared<TlsStream>(std::move(socket), std::move(context), Side::client, "");
  stream->ExpectName(host);
  return Owned(std::move(stream));
}

std::shared_ptr<Stream> AcceptTls(Socket socket, std::shared_ptr<const TlsContext> context,
                                  std::string plain_refusal) {
  return Owned(std::make_shared<TlsStream>(std::move(socket), std::move(context), Side::server,
                                           std::move(plain_refusal)));
}

}  // namespace simurgh::rpc
