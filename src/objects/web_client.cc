#include "objects/web_client.h"

#include <csignal>
#include <cstdlib>
#include <functional>
#include <utility>

#include <curl/curl.h>
#include <dlfcn.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "base/mutex.h"
#include "base/system_library.h"

namespace simurgh {
namespace {

// Older ones sign requests to S3 wrongly, or not at all.
constexpr unsigned kOldestVersion = 0x075800;  // 7.88.0
// From the first version to before the last, a + in a query is signed as a space.
constexpr unsigned kFirstWithoutPlus = 0x080e00;  // 8.14.0
constexpr unsigned kNextWithPlus = 0x081300;      // 8.19.0
constexpr size_t kMaxIdleHandles = 32;
constexpr size_t kMaxHeaderBytes = size_t{256} << 10;
constexpr char kRemedy[] = "install it (apt-get install libcurl4)";

struct Curl {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_version_info) version_info;
  decltype(&::curl_easy_init) init;
  decltype(&::curl_easy_cleanup) cleanup;
  decltype(&::curl_easy_reset) reset;
  decltype(&::curl_easy_setopt) set;
  decltype(&::curl_easy_getinfo) get;
  decltype(&::curl_easy_perform) perform;
  decltype(&::curl_easy_strerror) text_of;
  decltype(&::curl_slist_append) append;
  decltype(&::curl_slist_free_all) free_list;
  bool signs_plus;  // In a query.
  std::string version;
};

bool FindFunctions(void* library, Curl& curl) {
  return FindFunction(library, "curl_global_init", &curl.global_init) &&
         FindFunction(library, "curl_version_info", &curl.version_info) &&
         FindFunction(library, "curl_easy_init", &curl.init) &&
         FindFunction(library, "curl_easy_cleanup", &curl.cleanup) &&
         FindFunction(library, "curl_easy_reset", &curl.reset) &&
         FindFunction(library, "curl_easy_setopt", &curl.set) &&
         FindFunction(library, "curl_easy_getinfo", &curl.get) &&
         FindFunction(library, "curl_easy_perform", &curl.perform) &&
         FindFunction(library, "curl_easy_strerror", &curl.text_of) &&
         FindFunction(library, "curl_slist_append", &curl.append) &&
         FindFunction(library, "curl_slist_free_all", &curl.free_list);
}

StatusOr<Curl> Load() {
  Curl curl{};
  std::string reason;
  for (const char* const name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const error = dlerror();
      absl::StrAppend(&reason, reason.empty() ? "" : "; ", error == nullptr ? name : error);
      continue;
    }
    if (!FindFunctions(library, curl)) {
      absl::StrAppend(&reason, reason.empty() ? "" : "; ", name, " lacks a function");
      dlclose(library);
      continue;
    }
    const curl_version_info_data* const version = curl.version_info(CURLVERSION_NOW);
    if (version->version_num < kOldestVersion) {
      return absl::FailedPreconditionError(absl::StrCat(
          "libcurl ", version->version, " cannot sign requests to S3; install 7.88 or newer"));
    }
    curl.signs_plus =
        version->version_num < kFirstWithoutPlus || version->version_num >= kNextWithPlus;
    curl.version = version->version;
    if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
      return absl::FailedPreconditionError(absl::StrCat(name, " cannot be initialised"));
    }
    return curl;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("libcurl cannot be loaded (", reason, "); ", kRemedy));
}

const StatusOr<Curl>& LoadedCurl() {
  static const StatusOr<Curl>* const loaded = new StatusOr<Curl>(Load());
  return *loaded;
}

// The strings of abseil have their own views.
absl::string_view Piece(std::string_view text) { return {text.data(), text.size()}; }

// "s3.amazonaws.com:443" of a URL, without what precedes an @.
std::string_view HostOf(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme != url.npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  const size_t at = url.rfind('@');
  return at == url.npos ? url : url.substr(at + 1);
}

bool IsWebUrl(std::string_view url) {
  return url.starts_with("https://") || url.starts_with("http://");
}

// Returns whether libcurl would simplify the path.
bool HasDotSegment(std::string_view url) {
  const std::string_view path = url.substr(0, url.find_first_of("?#"));
  for (const auto segment : absl::StrSplit(Piece(path), '/')) {
    if (segment == "." || segment == "..") return true;
  }
  return false;
}

bool HasPlusInQuery(std::string_view url) {
  const size_t query = url.find('?');
  return query != url.npos && url.find("%2B", query) != url.npos;
}

// The headers of a request, in the form of libcurl.
class HeaderList {
 public:
  explicit HeaderList(const Curl& curl) : curl_(curl) {}
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList() { curl_.free_list(list_); }

  // Returns false without memory.
  bool Add(std::string_view name, std::string_view value) {
    // "Name;" is libcurl's form of a header without a value.
    const std::string line = value.empty() ? absl::StrCat(Piece(name), ";")
                                           : absl::StrCat(Piece(name), ": ", Piece(value));
    curl_slist* const list = curl_.append(list_, line.c_str());
    if (list == nullptr) return false;
    list_ = list;
    return true;
  }

  curl_slist* list() const { return list_; }

 private:
  const Curl& curl_;
  curl_slist* list_ = nullptr;
};

// Blocks SIGPIPE for the thread. OpenSSL writes to connections that the peer may have closed.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &old_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }

 private:
  sigset_t pipe_;
  sigset_t old_;
  bool was_pending_;
};

// Receives an answer from libcurl's callbacks.
struct Receiver {
  const Curl& curl;
  CURL* handle;
  uint64_t max_bytes;
  WebAnswer answer;
  size_t header_bytes = 0;
  bool is_too_long = false;
  bool has_body = false;
  bool has_head = false;  // All headers have arrived.
};

size_t OnHeader(char* data, size_t size, size_t count, void* context) {
  Receiver& receiver = *static_cast<Receiver*>(context);
  const std::string_view line(data, size * count);
  receiver.header_bytes += line.size();
  if (receiver.header_bytes > kMaxHeaderBytes) {
    receiver.is_too_long = true;
    return 0;
  }
  if (line.starts_with("HTTP/")) {  // Others may precede the last one: "100 Continue".
    receiver.answer.headers.clear();
    receiver.has_head = false;
  } else if (line == "\r\n" || line == "\n") {
    receiver.has_head = true;
  } else if (const size_t colon = line.find(':'); colon != line.npos) {
    const auto value = absl::StripAsciiWhitespace(Piece(line.substr(colon + 1)));
    receiver.answer.headers[absl::AsciiStrToLower(Piece(line.substr(0, colon)))] =
        std::string(value);
  }
  return line.size();
}

size_t OnBody(char* data, size_t size, size_t count, void* context) {
  Receiver& receiver = *static_cast<Receiver*>(context);
  std::string& body = receiver.answer.body;
  const size_t bytes = size * count;
  if (!receiver.has_body) {
    receiver.has_body = true;
    curl_off_t length = -1;
    receiver.curl.get(receiver.handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (length > 0 && static_cast<uint64_t>(length) > receiver.max_bytes) {
      receiver.is_too_long = true;
      return 0;
    }
    if (length > 0) body.reserve(length);
  }
  if (bytes > receiver.max_bytes - body.size()) {
    receiver.is_too_long = true;
    return 0;
  }
  body.append(data, bytes);
  return bytes;
}

// The error of a transfer that failed with `code`. detail: libcurl's text, or empty.
Status ErrorOf(const Curl& curl, CURL* handle, CURLcode code, const WebRequest& request,
               const Receiver& receiver, absl::string_view detail) {
  const std::string where = absl::StrCat(Piece(HostOf(request.url)), ": ");
  if (receiver.is_too_long) {
    return absl::OutOfRangeError(
        receiver.header_bytes > kMaxHeaderBytes
            ? absl::StrCat(where, "the answer's headers exceed ", kMaxHeaderBytes, " bytes")
            : absl::StrCat(where, "the answer exceeds ", request.max_bytes, " bytes"));
  }
  const absl::string_view reason = detail.empty() ? curl.text_of(code) : detail;
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT: {
      curl_off_t started = 0;
      curl.get(handle, CURLINFO_PRETRANSFER_TIME_T, &started);
      if (started > 0) {
        return absl::DeadlineExceededError(
            absl::StrCat(where, "no byte arrived for ", request.stall_timeout.count(), " s"));
      }
      return absl::UnavailableError(
          absl::StrCat(where, "no connection within ", request.connect_timeout.count(), " ms"));
    }
    case CURLE_COULDNT_CONNECT: {
      long error = 0;
      curl.get(handle, CURLINFO_OS_ERRNO, &error);
      if (error == 0) return absl::UnavailableError(absl::StrCat(where, reason));
      const Status cause = ErrnoStatus(static_cast<int>(error), where + "cannot connect");
      return absl::UnavailableError(cause.message());
    }
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      return absl::FailedPreconditionError(
          absl::StrCat(where, "its certificate is not trusted (", reason,
                       "); name the file of its authority in AWS_CA_BUNDLE"));
    case CURLE_SSL_CACERT_BADFILE:
      return absl::FailedPreconditionError(
          absl::StrCat(where,
                       "the file of trusted authorities cannot be read; check AWS_CA_BUNDLE, "
                       "or install ca-certificates"));
    case CURLE_URL_MALFORMAT:
      return absl::InvalidArgumentError(absl::StrCat(where, "the URL is malformed"));
    case CURLE_NOT_BUILT_IN:
    case CURLE_UNKNOWN_OPTION:
      return absl::FailedPreconditionError(
          absl::StrCat(where, "libcurl lacks a feature (", reason, "); install Debian's libcurl4"));
    case CURLE_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError(absl::StrCat(where, "there is too little memory"));
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
      return absl::UnavailableError(absl::StrCat(where, "the answer is incomplete (", reason, ")"));
    case CURLE_UNSUPPORTED_PROTOCOL:  // The answer has no head, as in HTTP/0.9.
      return absl::UnavailableError(absl::StrCat(where, "the answer is not HTTP (", reason, ")"));
    default:
      return absl::UnavailableError(absl::StrCat(where, reason));
  }
}

}  // namespace

// Handles keep their connections while they are idle.
struct WebClient::Handles {
  explicit Handles(const Curl& functions) : curl(functions) {}
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    for (CURL* const handle : idle) curl.cleanup(handle);
  }

  CURL* Take() {
    {
      const MutexLock lock(mutex);
      if (!idle.empty()) {
        CURL* const handle = idle.back();
        idle.pop_back();
        return handle;
      }
    }
    return curl.init();
  }

  void Return(CURL* handle) {
    curl.reset(handle);
    {
      const MutexLock lock(mutex);
      if (idle.size() < kMaxIdleHandles) {
        idle.push_back(handle);
        return;
      }
    }
    curl.cleanup(handle);
  }

  const Curl& curl;
  Mutex mutex;
  std::vector<CURL*> idle ABSL_GUARDED_BY(mutex);
};

StatusOr<std::unique_ptr<WebClient>> WebClient::Create() {
  const StatusOr<Curl>& curl = LoadedCurl();
  if (!curl.ok()) return curl.status();
  return std::unique_ptr<WebClient>(new WebClient(std::make_unique<Handles>(*curl)));
}

WebClient::WebClient(std::unique_ptr<Handles> handles) : handles_(std::move(handles)) {}

WebClient::~WebClient() = default;

StatusOr<WebAnswer> WebClient::Send(const WebRequest& request) {
  if (!IsWebUrl(request.url)) {
    return absl::InvalidArgumentError("a URL must begin with http:// or https://");
  }
  if (request.signature.has_value() && HasDotSegment(request.url)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Piece(HostOf(request.url)),
                     ": a name in a bucket has . or .. between its slashes; use another name"));
  }
  const Curl& curl = handles_->curl;
  if (request.signature.has_value() && !curl.signs_plus && HasPlusInQuery(request.url)) {
    return absl::FailedPreconditionError(
        absl::StrCat(Piece(HostOf(request.url)), ": libcurl ", curl.version,
                     " signs a + in a parameter as a space; use names without +, or install "
                     "libcurl 8.19 or newer"));
  }
  CURL* const handle = handles_->Take();
  const Status no_memory = absl::ResourceExhaustedError(
      absl::StrCat(Piece(HostOf(request.url)), ": there is too little memory"));
  if (handle == nullptr) return no_memory;
  const std::unique_ptr<CURL, std::function<void(CURL*)>> returned(
      handle, [this](CURL* used) { handles_->Return(used); });

  char detail[CURL_ERROR_SIZE] = "";
  Receiver receiver{.curl = curl, .handle = handle, .max_bytes = request.max_bytes, .answer = {}};
  HeaderList headers(curl);
  bool has_type = false;
  for (const auto& [name, value] : request.headers) {
    has_type = has_type || absl::EqualsIgnoreCase(name, "content-type");
    if (!headers.Add(name, value)) return no_memory;
  }

  CURLcode code = CURLE_OK;
  const auto set = [&](CURLoption option, auto value) {
    if (code == CURLE_OK) code = curl.set(handle, option, value);
  };
  set(CURLOPT_ERRORBUFFER, detail);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_URL, request.url.c_str());
  // Newer versions do not sign a path that they may not simplify.
  if (!request.signature.has_value()) set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_timeout.count()));
  set(CURLOPT_HEADERFUNCTION, &OnHeader);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&receiver));
  set(CURLOPT_WRITEFUNCTION, &OnBody);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&receiver));
  if (request.is_direct) set(CURLOPT_NOPROXY, "*");
  if (const char* const bundle = std::getenv("AWS_CA_BUNDLE"); bundle != nullptr && *bundle != 0) {
    set(CURLOPT_CAINFO, bundle);
  }
  if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET" || !request.body.empty()) {
    if (request.method == "PUT" || request.method == "POST" || !request.body.empty()) {
      // libcurl's own PUT reads the body by a callback, and then expects "100 Continue" in a
      // header that it does not sign as it sends it.
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      set(CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
      if (!has_type && !headers.Add("Content-Type", "application/octet-stream")) return no_memory;
    }
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (request.signature.has_value()) {
    const auto& [key, region] = *request.signature;
    set(CURLOPT_AWS_SIGV4, absl::StrCat("aws:amz:", region, ":s3").c_str());
    set(CURLOPT_USERNAME, key.id.c_str());
    set(CURLOPT_PASSWORD, key.secret.c_str());
    if (!headers.Add("x-amz-content-sha256", "UNSIGNED-PAYLOAD") ||
        (!key.token.empty() && !headers.Add("x-amz-security-token", key.token))) {
      return no_memory;
    }
  }
  set(CURLOPT_HTTPHEADER, headers.list());
  if (code == CURLE_OK) {
    const NoPipeSignal no_signal;
    code = curl.perform(handle);
  }
  if (code != CURLE_OK) return ErrorOf(curl, handle, code, request, receiver, detail);
  if (!receiver.has_head) {  // libcurl accepts an end amid the headers.
    return absl::UnavailableError(absl::StrCat(
        Piece(HostOf(request.url)), ": the answer is incomplete (its headers do not end)"));
  }
  long status = 0;
  curl.get(handle, CURLINFO_RESPONSE_CODE, &status);
  receiver.answer.status = static_cast<int>(status);
  return std::move(receiver.answer);
}

std::string UrlEncoded(std::string_view text, std::string_view kept) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || c == '-' || c == '.' || c == '_' || c == '~' ||
        kept.find(c) != kept.npos) {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kDigits[byte >> 4];
      encoded += kDigits[byte & 15];
    }
  }
  return encoded;
}

}  // namespace simurgh
