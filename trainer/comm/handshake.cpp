#include "trainer/comm/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/crypto.h"

namespace muster::comm {
namespace {

constexpr std::uint32_t magic = 0x4d535452;
constexpr std::uint32_t version = 1;
constexpr std::size_t nonce_bytes = 16, proof_bytes = 32;

struct Hello {
  std::uint32_t magic, version, from, to;
  std::uint64_t epoch, n;
  char nonce[nonce_bytes];
};

struct Challenge {
  char nonce[nonce_bytes];
  char proof[proof_bytes];
};

Status wait(int socket, short events, Deadline deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return Error{Code::deadline_exceeded, "the peer's handshake took too long"};
    pollfd fd{socket, events, 0};
    if (::poll(&fd, 1, int(std::min<long long>(left.count(), 1000))) > 0) return {};
  }
}

Status put(int socket, const void* data, std::size_t bytes, Deadline deadline) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const auto n = ::send(socket, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      MUSTER_CHECK_OK(wait(socket, POLLOUT, deadline));
      continue;
    }
    if (n < 0) return Error{Code::peer_lost, std::string("handshake: ") + std::strerror(errno)};
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

Status get(int socket, void* data, std::size_t bytes, Deadline deadline) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    MUSTER_CHECK_OK(wait(socket, POLLIN, deadline));
    const auto n = ::recv(socket, at, bytes, MSG_DONTWAIT);
    if (n == 0) return Error{Code::peer_lost, "the peer closed during the handshake"};
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n < 0) return Error{Code::peer_lost, std::string("handshake: ") + std::strerror(errno)};
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

std::string proof(const Options& options, const char* role, const Hello& hello,
                  const char (&nonce)[nonce_bytes]) {
  std::string message = role;
  message.append(reinterpret_cast<const char*>(&hello), sizeof(hello));
  message.append(nonce, nonce_bytes);
  return crypto::hmac_sha256(options.key, message);
}

bool proves(const char (&given)[proof_bytes], const std::string& expected) {
  return crypto::equal_constant_time({given, proof_bytes}, expected);
}

}  // namespace

Status prove_as_dialler(int socket, const Options& options, int peer, Deadline deadline) {
  Hello hello{magic,
              version,
              static_cast<std::uint32_t>(options.rank),
              static_cast<std::uint32_t>(peer),
              options.generation.epoch,
              options.generation.n,
              {}};
  crypto::random_bytes(nonce_bytes).copy(hello.nonce, nonce_bytes);
  MUSTER_CHECK_OK(put(socket, &hello, sizeof(hello), deadline));
  Challenge challenge;
  MUSTER_CHECK_OK(get(socket, &challenge, sizeof(challenge), deadline));
  if (!proves(challenge.proof, proof(options, "listener", hello, challenge.nonce))) {
    return Error{Code::unauthenticated,
                 "rank " + std::to_string(peer) + " does not hold this generation's key"};
  }
  const auto mine = proof(options, "dialler", hello, challenge.nonce);
  return put(socket, mine.data(), proof_bytes, deadline);
}

Result<int> prove_as_listener(int socket, const Options& options, Deadline deadline) {
  Hello hello;
  MUSTER_CHECK_OK(get(socket, &hello, sizeof(hello), deadline));
  if (hello.magic != magic || hello.version != version) {
    return Error{Code::protocol, "a connection that does not speak this protocol"};
  }
  if (hello.epoch != options.generation.epoch || hello.n != options.generation.n) {
    return Error{Code::stale_generation, "a connection of another generation"};
  }
  const bool wanted = hello.to == static_cast<std::uint32_t>(options.rank) &&
                      hello.from > hello.to &&
                      hello.from < static_cast<std::uint32_t>(options.world_size);
  if (!wanted) return Error{Code::protocol, "a connection of a rank that should not dial"};
  Challenge challenge;
  crypto::random_bytes(nonce_bytes).copy(challenge.nonce, nonce_bytes);
  proof(options, "listener", hello, challenge.nonce).copy(challenge.proof, proof_bytes);
  MUSTER_CHECK_OK(put(socket, &challenge, sizeof(challenge), deadline));
  char answer[proof_bytes];
  MUSTER_CHECK_OK(get(socket, answer, sizeof(answer), deadline));
  if (!proves(answer, proof(options, "dialler", hello, challenge.nonce))) {
    return Error{Code::unauthenticated, "a peer that does not hold this generation's key"};
  }
  return static_cast<int>(hello.from);
}

}  // namespace muster::comm
