#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace simurgh {

// The body of a request, and the texts that its cells refer to and the body has not as they are.
//
// Threads: one writer; then immutable.
class RequestMemory {
 public:
  explicit RequestMemory(std::string body) : body_(std::move(body)) {}
  RequestMemory(const RequestMemory&) = delete;
  RequestMemory& operator=(const RequestMemory&) = delete;

  std::string_view body() const { return body_; }
  // Memory that was taken, without the body.
  size_t copied_bytes() const { return copied_bytes_; }
  bool IsInBody(std::string_view text) const {
    return text.data() >= body_.data() && text.data() + text.size() <= body_.data() + body_.size();
  }

  // Copies what is not in the body.
  std::string_view Keep(std::string_view text) { return IsInBody(text) ? text : Copy(text); }
  std::string_view Copy(std::string_view text) {
    char* const copy = Allocate<char>(text.size());
    std::copy(text.begin(), text.end(), copy);
    return {copy, text.size()};
  }
  std::span<const std::string_view> Copy(std::span<const std::string_view> texts) {
    auto* const copy = Allocate<std::string_view>(texts.size());
    std::uninitialized_copy(texts.begin(), texts.end(), copy);
    return {copy, texts.size()};
  }

 private:
  template <typename T>
  T* Allocate(size_t count) {
    copied_bytes_ += count * sizeof(T);
    return static_cast<T*>(arena_.allocate(count * sizeof(T), alignof(T)));
  }

  const std::string body_;
  size_t copied_bytes_ = 0;
  std::pmr::monotonic_buffer_resource arena_;
};

}  // namespace simurgh
