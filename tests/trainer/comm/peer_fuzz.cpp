// Bytes from a peer: to the side that answers its dialling, and as frames of a generation.
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "trainer/comm/handshake.h"
#include "trainer/comm/mesh.h"

namespace {

// A socket at whose other end the bytes have been written and nothing more will come.
int socket_with(const std::uint8_t* data, std::size_t size, int& other) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  [[maybe_unused]] const auto n = ::send(ends[1], data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  ::shutdown(ends[1], SHUT_WR);
  other = ends[1];
  return ends[0];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::comm;
  Options options;
  options.world_size = 2;
  options.generation = {7, 3};
  options.key = "key";
  int other = -1;
  const int dialled = socket_with(data, size, other);
  (void)prove_as_listener(dialled, options, in(std::chrono::seconds(1)));
  ::close(dialled);
  ::close(other);
  const int peer = socket_with(data, size, other);
  Mesh mesh(0, {-1, peer}, options.generation, {});  // closes its sockets
  std::byte buffer[64];
  const Transfer transfer{1, buffer, sizeof(buffer)};
  for (int i = 0; i < 3; ++i) {
    if (!mesh.exchange({}, {&transfer, 1}, in(std::chrono::seconds(1))).ok()) break;
  }
  ::close(other);
  return 0;
}
