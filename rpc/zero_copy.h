#pragma once

#include <cstdint>
#include <deque>

namespace simurgh::rpc {

// The writes of one TCP socket that the kernel sends from where the bytes lie (MSG_ZEROCOPY), and
// what it still needs of them.
//
// The kernel numbers such writes and reports, on the socket's error queue, ranges of numbers whose
// bytes it needs no more, and whether it had to copy them after all: as it does towards the same
// host, and where the network card cannot gather. Then all of it was in vain, and is switched off.
//
// Threads: one. Lifetime: within the socket's.
class ZeroCopy {
 public:
  // Off from the start where the kernel does not offer it.
  explicit ZeroCopy(int socket);

  // Whether writes should use it. Once it is off, it stays off.
  bool on() const { return on_; }

  // One such write has been made; its bytes are those of the stream from `begin`.
  void Wrote(uint64_t begin) { writes_.push_back({.begin = begin}); }

  // Takes the reports that are there.
  void Collect();

  // Whether there are reports to come.
  bool waiting() const { return !writes_.empty(); }

  // Up to where the bytes of the stream may change again; written: how many it has.
  uint64_t free_until(uint64_t written) const {
    return writes_.empty() ? written : writes_.front().begin;
  }

 private:
  struct Write {
    uint64_t begin = 0;
    bool over = false;
  };

  void Over(uint32_t first, uint32_t last);

  const int socket_;
  bool on_ = false;
  std::deque<Write> writes_;  // Consecutive numbers; the first is not over.
  uint32_t first_number_ = 0;
};

}  // namespace simurgh::rpc
