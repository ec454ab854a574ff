#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "trainer/comm/mesh_builder.h"
#include "trainer/comm/shared_memory.h"

namespace muster::comm {
namespace {

Result<int> dial(const PeerAddress& peer) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (peer.unix_name.size() + 1 >= sizeof(address.sun_path)) {
    return Error{Code::protocol, "the peer's Unix socket has too long a name"};
  }
  peer.unix_name.copy(address.sun_path + 1, peer.unix_name.size());
  const auto length = offsetof(sockaddr_un, sun_path) + 1 + peer.unix_name.size();
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(length)) ==
      0) {
    return socket;
  }
  const int why = errno;
  ::close(socket);
  return Error{Code::io,
               "cannot reach the Unix socket " + peer.unix_name + ": " + std::strerror(why)};
}

// A byte that carries two descriptors: the window's and the arena's (the window's again when there
// is no arena, with the byte 0).
Status send_descriptors(int socket, int window, int arena) {
  char has_arena = arena >= 0 ? 1 : 0;
  iovec piece{&has_arena, 1};
  const int descriptors[2] = {window, arena >= 0 ? arena : window};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(descriptors))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  auto* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(descriptors));
  std::memcpy(CMSG_DATA(header), descriptors, sizeof(descriptors));
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) == 1) return {};
  return Error{Code::peer_lost, std::string("sending shared memory: ") + std::strerror(errno)};
}

struct Descriptors {
  int window = -1, arena = -1;
  bool has_arena = false;
  ~Descriptors() {
    if (window >= 0) ::close(window);
    if (arena >= 0) ::close(arena);
  }
};

Status receive_descriptors(int socket, Descriptors& received, Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::microseconds>(deadline - std::chrono::steady_clock::now());
  const timeval timeout{std::max<long>(0, long(left.count() / 1000000)),
                        std::max<long>(1, long(left.count() % 1000000))};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  char has_arena = 0;
  iovec piece{&has_arena, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) {
    return Error{Code::peer_lost, "a peer did not send its shared memory"};
  }
  const auto* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(2 * sizeof(int))) {
    return Error{Code::protocol, "a peer sent something else than its shared memory"};
  }
  int descriptors[2];
  std::memcpy(descriptors, CMSG_DATA(header), sizeof(descriptors));
  received.window = descriptors[0];
  received.arena = descriptors[1];
  received.has_arena = has_arena != 0;
  return {};
}

Result<std::size_t> size_of_file(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) == 0) return static_cast<std::size_t>(info.st_size);
  return Error{Code::io, std::string("shared memory: ") + std::strerror(errno)};
}

Result<Neighbour> open_neighbour(const Descriptors& from) {
  Neighbour neighbour;
  MUSTER_TRY(window_size, size_of_file(from.window));
  if (window_size != Window::bytes) {
    return Error{Code::protocol, "a peer's window has another size; is it of another version?"};
  }
  MUSTER_TRY(window, Window::open(from.window));
  neighbour.window = std::move(window);
  if (!from.has_arena) return neighbour;
  MUSTER_TRY(arena_size, size_of_file(from.arena));
  MUSTER_TRY(arena, Mapping::of(from.arena, arena_size));
  neighbour.arena_data = arena->data();
  neighbour.arena_size = arena_size;
  neighbour.arena = std::move(arena);
  return neighbour;
}

Result<std::vector<Neighbour>> exchange(const Options& options, const Mesh& mesh, int window_fd,
                                        std::unique_ptr<Window> own, Deadline deadline) {
  for (int r = 0; r < options.world_size; ++r) {
    if (r == options.rank) continue;
    MUSTER_CHECK_OK(
        send_descriptors(mesh.socket(r), window_fd, options.arena ? options.arena->fd() : -1));
  }
  std::vector<Neighbour> all(static_cast<std::size_t>(options.world_size));
  for (int r = 0; r < options.world_size; ++r) {
    auto& neighbour = all[static_cast<std::size_t>(r)];
    if (r == options.rank) {
      neighbour.window = std::move(own);
      if (options.arena) {
        neighbour.arena_data = options.arena->data();
        neighbour.arena_size = options.arena->size();
      }
      continue;
    }
    Descriptors received;
    MUSTER_CHECK_OK(receive_descriptors(mesh.socket(r), received, deadline));
    MUSTER_TRY(opened, open_neighbour(received));
    neighbour = std::move(opened);
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<Communicator>> make_shared_memory(const Options& options, Listener& listener,
                                                         Deadline deadline) {
  MUSTER_TRY(sockets, connect_to_all(options, {listener.unix_fd(), dial, {}}, deadline));
  auto mesh =
      std::make_unique<Mesh>(options.rank, std::move(sockets), options.generation, Faults{});
  Descriptors own;
  MUSTER_TRY(window, Window::create(own.window));
  MUSTER_TRY(neighbours, exchange(options, *mesh, own.window, std::move(window), deadline));
  return std::unique_ptr<Communicator>(
      std::make_unique<SharedMemory>(std::move(mesh), std::move(neighbours), options.arena));
}

// MUSTER_TRANSPORT=tcp or shared-memory overrides the choice: for tests and measurements.
Result<std::unique_ptr<Communicator>> connect(const Options& options, Listener& listener,
                                              Deadline deadline) {
  if (options.world_size == 1) return std::move(make_local(1)[0]);
  const char* wish = std::getenv("MUSTER_TRANSPORT");
  bool one_machine = true;
  for (const auto& peer : options.peers) {
    one_machine = one_machine && peer.machine == options.peers[0].machine;
  }
  if (wish != nullptr && std::string_view(wish) == "tcp") one_machine = false;
  if (wish != nullptr && std::string_view(wish) == "shared-memory") one_machine = true;
  return one_machine ? make_shared_memory(options, listener, deadline)
                     : make_tcp(options, listener, deadline);
}

}  // namespace muster::comm
