#include "bench/e2e/tunnel.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "simurgh/base/file_descriptor.h"

namespace simurgh::bench {
namespace {

constexpr char kDevice[] = "slow0";

Status Failure(const std::string& what) {
  const std::string text = absl::StrCat(what, ": ", std::strerror(errno));
  if (errno == EPERM || errno == EACCES) {
    return absl::PermissionDeniedError(absl::StrCat(text, "; this needs the rights of root"));
  }
  if (errno == ENOENT) return absl::NotFoundError(text);
  return absl::UnavailableError(text);
}

StatusOr<FileDescriptor> OpenFile(const std::string& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC));
  if (!file.valid()) return Failure(path);
  return file;
}

// Lifetime: the thread is in another network namespace while this exists.
class InNamespace {
 public:
  static StatusOr<InNamespace> Enter(const std::string& name) {
    SIMURGH_ASSIGN_OR_RETURN(FileDescriptor own, OpenFile("/proc/self/ns/net", O_RDONLY));
    SIMURGH_ASSIGN_OR_RETURN(const FileDescriptor other, OpenFile("/run/netns/" + name, O_RDONLY));
    if (::setns(other.number(), CLONE_NEWNET) != 0) return Failure("entering " + name);
    return InNamespace(std::move(own));
  }

  InNamespace(InNamespace&&) = default;
  ~InNamespace() {
    if (own_.valid()) ::setns(own_.number(), CLONE_NEWNET);
  }

 private:
  explicit InNamespace(FileDescriptor own) : own_(std::move(own)) {}

  FileDescriptor own_;
};

ifreq RequestFor(const char* device) {
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  return request;
}

sockaddr Ipv4(uint32_t address) {
  sockaddr_in internet{};
  internet.sin_family = AF_INET;
  internet.sin_addr.s_addr = htonl(address);
  sockaddr result{};
  std::memcpy(&result, &internet, sizeof(result));
  return result;
}

Status SetUp(int socket, const char* device) {
  ifreq request = RequestFor(device);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(socket, SIOCSIFFLAGS, &request) != 0) return Failure(device);
  return absl::OkStatus();
}

Status Configure(uint32_t address) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Failure("socket");
  ifreq request = RequestFor(kDevice);
  request.ifr_addr = Ipv4(address);
  if (::ioctl(socket.number(), SIOCSIFADDR, &request) != 0) return Failure("address");
  request.ifr_netmask = Ipv4(0xFFFFFF00);
  if (::ioctl(socket.number(), SIOCSIFNETMASK, &request) != 0) return Failure("netmask");
  request.ifr_mtu = Tunnel::kMaxPacketBytes;
  if (::ioctl(socket.number(), SIOCSIFMTU, &request) != 0) return Failure("packet size");
  SIMURGH_RETURN_IF_ERROR(SetUp(socket.number(), kDevice));
  return SetUp(socket.number(), "lo");
}

}  // namespace

StatusOr<Tunnel> Tunnel::Open(const std::string& network_namespace, uint32_t address) {
  SIMURGH_ASSIGN_OR_RETURN(const InNamespace inside, InNamespace::Enter(network_namespace));
  const int descriptor = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return Failure("/dev/net/tun");
  Tunnel tunnel(descriptor, address);
  ifreq request = RequestFor(kDevice);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (::ioctl(descriptor, TUNSETIFF, &request) != 0) return Failure(kDevice);
  SIMURGH_RETURN_IF_ERROR(Configure(address));
  return tunnel;
}

Tunnel::Tunnel(Tunnel&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), address_(other.address_) {}

Tunnel::~Tunnel() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

size_t Tunnel::Read(std::span<std::byte> buffer) const {
  const ssize_t got = ::read(descriptor_, buffer.data(), buffer.size());
  return got < 0 ? 0 : static_cast<size_t>(got);
}

void Tunnel::Write(std::span<const std::byte> packet) const {
  (void)!::write(descriptor_, packet.data(), packet.size());
}

}  // namespace simurgh::bench
