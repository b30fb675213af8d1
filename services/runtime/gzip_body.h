#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace simurgh {

// Decompresses a body in gzip as its bytes arrive. The body may have several members.
//
// Threads: one owner. Source: RFC 1952.
class GzipBody {
 public:
  // limit: maximum number of decompressed bytes.
  explicit GzipBody(size_t limit);
  GzipBody(const GzipBody&) = delete;
  GzipBody& operator=(const GzipBody&) = delete;
  ~GzipBody();

  enum class Result { kOk, kDamaged, kTooLarge };
  // Takes the next bytes. Nothing may follow a result that is not kOk.
  Result Take(std::string_view bytes);
  // Returns whether the bytes so far are whole members, or none.
  bool is_whole() const;

  size_t size() const { return text_.size(); }
  // Returns the decompressed body. Requires is_whole(). Call it once.
  std::string Release() { return std::move(text_); }

 private:
  struct State;
  const size_t limit_;
  const std::unique_ptr<State> state_;
  std::string text_;
};

}  // namespace simurgh
