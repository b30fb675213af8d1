#include "rpc/testing/killing_proxy.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <boost/asio/write.hpp>

#include "simurgh/base/random.h"

namespace simurgh::rpc::testing {
namespace {

constexpr size_t kChunkBytes = 65'536;
constexpr uint64_t kHandshakeBytes = 600;  // Of both HELLOs, about.

}  // namespace

struct KillingProxy::Core {
  Core(uint64_t seed, double mean) : random(seed), mean_bytes(mean) {}

  uint64_t DrawBytes() {
    if (random.Below(16) == 0) return random.Below(kHandshakeBytes);
    return static_cast<uint64_t>(-std::log1p(-random.Uniform()) * mean_bytes);
  }

  Random random;
  const double mean_bytes;
  bool killing = true;
  uint64_t kills = 0;
};

// One connection through the proxy.
class KillingProxy::Link : public std::enable_shared_from_this<Link> {
 public:
  Link(std::shared_ptr<Core> core, Socket client, Socket server)
      : core_(std::move(core)),
        client_(std::move(client)),
        server_(std::move(server)),
        left_(core_->DrawBytes()) {}

  void Start() {
    const auto executor = client_.get_executor();
    asio::co_spawn(executor, Pass(shared_from_this(), client_, server_), asio::detached);
    asio::co_spawn(executor, Pass(shared_from_this(), server_, client_), asio::detached);
  }

 private:
  // Passes on what comes until the connection ends or is cut.
  [[nodiscard]] static awaitable<void> Pass(std::shared_ptr<Link> self, Socket& from, Socket& to) {
    std::vector<std::byte> chunk(kChunkBytes);
    for (;;) {
      auto [ended, got] = co_await from.async_read_some(asio::buffer(chunk), kNoThrow);
      if (ended == asio::error::eof) co_return EndDirection(from, to);
      if (ended) break;
      const bool cut = self->core_->killing && !self->cut_ && got >= self->left_;
      const size_t passed = cut ? self->left_ : got;
      self->left_ -= std::min<uint64_t>(passed, self->left_);
      auto [failed, count] = co_await asio::async_write(to, asio::buffer(chunk, passed), kNoThrow);
      if (cut) co_return self->Cut(from, to);
      if (failed) break;
    }
    CloseBoth(from, to);
  }

  void Cut(Socket& from, Socket& to) {
    if (std::exchange(cut_, true)) return;
    ++core_->kills;
    const uint64_t how = core_->random.Below(3);
    if (how == 0) return EndDirection(from, to);
    if (how == 1) {
      // Resets: what lies in the peers' buffers is lost.
      boost::system::error_code ignored;
      from.set_option(asio::socket_base::linger(true, 0), ignored);
      to.set_option(asio::socket_base::linger(true, 0), ignored);
    }
    CloseBoth(from, to);
  }

  const std::shared_ptr<Core> core_;
  Socket client_;
  Socket server_;
  uint64_t left_;  // Bytes until the cut.
  bool cut_ = false;
};

KillingProxy::KillingProxy(asio::any_io_executor executor, uint64_t seed, double mean_bytes)
    : KillingProxy(std::move(executor), std::make_shared<Core>(seed, mean_bytes)) {}

KillingProxy::KillingProxy(asio::any_io_executor executor, const std::shared_ptr<Core>& core)
    : Proxy(std::move(executor),
            [core](Socket client, Socket server) {
              std::make_shared<Link>(core, std::move(client), std::move(server))->Start();
            }),
      core_(core) {}

void KillingProxy::StopKilling() { core_->killing = false; }

uint64_t KillingProxy::kills() const { return core_->kills; }

}  // namespace simurgh::rpc::testing
