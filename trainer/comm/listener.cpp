#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/crypto.h"
#include "common/file.h"
#include "common/tcp.h"
#include "trainer/comm/communicator.h"

namespace muster::comm {
namespace {

constexpr int backlog = 512;

class Sockets : public Listener {
 public:
  ~Sockets() override {
    if (tcp_ >= 0) ::close(tcp_);
    if (unix_ >= 0) ::close(unix_);
  }
  std::string tcp_address() const override { return tcp_address_; }
  std::string unix_address() const override { return unix_address_; }
  int tcp_fd() const override { return tcp_; }
  int unix_fd() const override { return unix_; }

  Status open_tcp(const std::string& host, std::uint16_t port) {
    int bound = 0;
    MUSTER_TRY(fd, listen_tcp(host + ":" + std::to_string(port), bound));
    tcp_ = fd;
    tcp_address_ = host + ":" + std::to_string(bound);
    return {};
  }

  Status open_unix() {
    unix_address_ = "muster-" + crypto::to_hex(crypto::random_bytes(16));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    unix_address_.copy(address.sun_path + 1, unix_address_.size());
    const auto length = offsetof(sockaddr_un, sun_path) + 1 + unix_address_.size();
    unix_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(unix_, reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(length)) != 0 ||
        ::listen(unix_, backlog) != 0) {
      return Error{Code::io, std::string("cannot open a Unix socket: ") + std::strerror(errno)};
    }
    return {};
  }

 private:
  int tcp_ = -1, unix_ = -1;
  std::string tcp_address_, unix_address_;
};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(const std::string& host, std::uint16_t port) {
  auto sockets = std::make_unique<Sockets>();
  MUSTER_CHECK_OK(sockets->open_tcp(host, port));
  MUSTER_CHECK_OK(sockets->open_unix());
  return std::unique_ptr<Listener>(std::move(sockets));
}

std::string machine_id() {
  const auto boot = read_file("/proc/sys/kernel/random/boot_id");
  char network[256] = {};
  [[maybe_unused]] const auto n = ::readlink("/proc/self/ns/net", network, sizeof(network) - 1);
  return (boot.ok() ? boot->substr(0, 36) : std::string("unknown")) + "/" + network + "/" +
         std::to_string(::getuid());
}

}  // namespace muster::comm
