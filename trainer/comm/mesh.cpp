#include "trainer/comm/mesh.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <thread>

namespace muster::comm {
namespace {

struct Header {
  std::uint32_t magic = 0x4d555354;  // "MUST"
  std::uint32_t reserved = 0;
  std::uint64_t epoch = 0;
  std::uint64_t n = 0;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
};

std::string name_of(int peer) {
  return "rank " + std::to_string(peer);
}

}  // namespace

// The progress of one exchange().
class Mesh::Run {
 public:
  Run(Mesh& mesh, std::span<const Transfer> sends, std::span<const Transfer> receives)
      : mesh_(mesh), outgoing_(mesh.peers_.size()), incoming_(mesh.peers_.size()) {
    for (const auto& t : sends) outgoing_[index(t)].push_back({t, {}, 0, 0, false});
    for (const auto& t : receives) incoming_[index(t)].push_back({t, {}, 0, 0, false});
    left_ = sends.size() + receives.size();
  }

  Status finish(Deadline deadline) {
    while (left_ > 0) {
      if (mesh_.aborted_) return Error{Code::aborted, "the communicator was aborted"};
      bool moved = false;
      for (std::size_t p = 0; p < outgoing_.size(); ++p) {
        MUSTER_CHECK_OK(push(p, moved));
        MUSTER_CHECK_OK(pull(p, moved));
      }
      if (left_ > 0 && !moved) MUSTER_CHECK_OK(wait(deadline));
    }
    return {};
  }

 private:
  struct Part {
    Transfer transfer;
    Header header;
    std::size_t header_done = 0;
    std::size_t done = 0;
    bool started = false;
  };

  static std::size_t index(const Transfer& t) { return static_cast<std::size_t>(t.peer); }

  Header next_header(std::uint64_t sequence, std::size_t bytes) const {
    return {Header{}.magic, 0, mesh_.generation_.epoch, mesh_.generation_.n, sequence, bytes};
  }

  // Sends what the socket takes.
  Status push(std::size_t p, bool& moved) {
    auto& queue = outgoing_[p];
    auto& peer = mesh_.peers_[p];
    while (!queue.empty()) {
      auto& part = queue.front();
      if (!part.started) {
        part.started = true;
        part.header = next_header(peer.sent++, part.transfer.bytes);
        if (dropped(p)) return finish_part(queue, moved);
      }
      iovec pieces[2] = {{reinterpret_cast<char*>(&part.header) + part.header_done,
                          sizeof(Header) - part.header_done},
                         {part.transfer.data + part.done, part.transfer.bytes - part.done}};
      msghdr message{};
      message.msg_iov = pieces;
      message.msg_iovlen = 2;
      const auto n = ::sendmsg(peer.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0) return blocked(p, "sending to");
      moved = true;
      advance(part, static_cast<std::size_t>(n));
      if (part.header_done < sizeof(Header) || part.done < part.transfer.bytes) return {};
      mesh_.bytes_sent_ += part.transfer.bytes;
      MUSTER_CHECK_OK(finish_part(queue, moved));
    }
    return {};
  }

  Status pull(std::size_t p, bool& moved) {
    auto& queue = incoming_[p];
    while (!queue.empty()) {
      auto& part = queue.front();
      const bool in_header = part.header_done < sizeof(Header);
      void* to = in_header ? reinterpret_cast<char*>(&part.header) + part.header_done
                           : static_cast<void*>(part.transfer.data + part.done);
      const auto want =
          in_header ? sizeof(Header) - part.header_done : part.transfer.bytes - part.done;
      if (want > 0) {
        const auto n = ::recv(mesh_.peers_[p].socket, to, want, MSG_DONTWAIT);
        if (n == 0) return Error{Code::peer_lost, name_of(int(p)) + " closed its connection"};
        if (n < 0) return blocked(p, "receiving from");
        moved = true;
        advance(part, static_cast<std::size_t>(n));
        if (part.header_done == sizeof(Header) && in_header) MUSTER_CHECK_OK(check(p, part));
      }
      if (part.header_done == sizeof(Header) && part.done == part.transfer.bytes) {
        ++mesh_.peers_[p].received;
        MUSTER_CHECK_OK(finish_part(queue, moved));
      }
    }
    return {};
  }

  Status check(std::size_t p, const Part& part) const {
    const auto expected = next_header(mesh_.peers_[p].received, part.transfer.bytes);
    const auto& got = part.header;
    if (got.magic != expected.magic) {
      return Error{Code::protocol, name_of(int(p)) + " sent something that is not a frame"};
    }
    if (got.epoch != expected.epoch || got.n != expected.n) {
      return Error{Code::stale_generation, name_of(int(p)) + " sent a frame of another generation"};
    }
    if (got.sequence == expected.sequence && got.bytes == expected.bytes) return {};
    return Error{Code::protocol, name_of(int(p)) + " sent message " + std::to_string(got.sequence) +
                                     " of " + std::to_string(got.bytes) + " bytes instead of " +
                                     std::to_string(expected.sequence) + " of " +
                                     std::to_string(expected.bytes)};
  }

  static void advance(Part& part, std::size_t n) {
    const auto header = std::min(n, sizeof(Header) - part.header_done);
    part.header_done += header;
    part.done += n - header;
  }

  Status finish_part(std::deque<Part>& queue, bool& moved) {
    queue.pop_front();
    --left_;
    moved = true;
    return {};
  }

  bool dropped(std::size_t p) {
    const auto& faults = mesh_.faults_;
    if (faults.delay) std::this_thread::sleep_for(faults.delay(mesh_.rank_, int(p)));
    return faults.drop && faults.drop(mesh_.rank_, int(p));
  }

  static Status blocked(std::size_t p, const char* step) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
    const bool lost = errno == ECONNRESET || errno == EPIPE;
    return Error{lost ? Code::peer_lost : Code::io,
                 std::string(step) + " " + name_of(int(p)) + ": " + std::strerror(errno)};
  }

  Status wait(Deadline deadline) {
    std::vector<pollfd> fds{{mesh_.abort_event_, POLLIN, 0}};
    int waiting_for = -1;
    for (std::size_t p = 0; p < outgoing_.size(); ++p) {
      short events = 0;
      if (!outgoing_[p].empty()) events |= POLLOUT;
      if (!incoming_[p].empty()) events |= POLLIN;
      if (events == 0) continue;
      waiting_for = int(p);
      fds.push_back({mesh_.peers_[p].socket, events, 0});
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return Error{Code::deadline_exceeded, "waited too long for " + name_of(waiting_for)};
    }
    ::poll(fds.data(), fds.size(), int(std::min<long long>(left.count(), 1000)));
    return {};
  }

  Mesh& mesh_;
  std::vector<std::deque<Part>> outgoing_, incoming_;
  std::size_t left_ = 0;
};

Mesh::Mesh(int rank, std::vector<int> sockets, Generation generation, Faults faults)
    : rank_(rank),
      generation_(generation),
      faults_(std::move(faults)),
      abort_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (const int s : sockets) peers_.push_back({s, 0, 0});
}

Mesh::~Mesh() {
  for (const auto& peer : peers_) {
    if (peer.socket >= 0) ::close(peer.socket);
  }
  ::close(abort_event_);
}

Status Mesh::exchange(std::span<const Transfer> sends, std::span<const Transfer> receives,
                      Deadline deadline) {
  if (!broken_.ok()) return broken_;
  auto status = Run(*this, sends, receives).finish(deadline);
  return status.ok() ? status : fail(status.error());
}

// Peers must learn of it: their connections are shut.
Status Mesh::fail(const Error& error) {
  broken_ = error;
  for (const auto& peer : peers_) {
    if (peer.socket >= 0) ::shutdown(peer.socket, SHUT_RDWR);
  }
  return error;
}

bool Mesh::closed(int peer) const {
  char byte;
  const auto n = ::recv(socket(peer), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

void Mesh::abort() {
  aborted_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(abort_event_, &one, sizeof(one));
}

}  // namespace muster::comm
