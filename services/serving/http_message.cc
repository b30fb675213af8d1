#include "services/serving/http_message.h"

#include "absl/strings/str_cat.h"

#include "services/serving/predict_request.h"

namespace simurgh {

HttpResponse HttpResponse::Error(int code, std::string_view message) {
  HttpResponse response{.code = code};
  response.body = ErrorJson(message);
  return response;
}

const char* ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

std::string ResponseHead(const HttpResponse& response, bool keep_alive) {
  std::string head = absl::StrCat("HTTP/1.1 ", response.code, " ", ReasonOf(response.code),
                                  "\r\nContent-Type: ", response.content_type,
                                  "\r\nContent-Length: ", response.body.size(), "\r\n");
  for (const auto& [name, value] : response.headers) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  absl::StrAppend(&head, keep_alive ? "" : "Connection: close\r\n", "\r\n");
  return head;
}

}  // namespace simurgh
