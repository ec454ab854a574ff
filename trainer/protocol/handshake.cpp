#include "trainer/protocol/handshake.h"

#include "common/crypto.h"

namespace muster::protocol {

std::string make_nonce() {
  return crypto::to_hex(crypto::random_bytes(16));
}

std::string proof(const std::string& token, const std::string& role,
                  const std::string& coordinator_nonce, const std::string& rank_nonce) {
  return crypto::to_hex(
      crypto::hmac_sha256(token, role + "|" + coordinator_nonce + "|" + rank_nonce));
}

Status check_proof(const nlohmann::json& message, const std::string& token, const std::string& role,
                   const std::string& coordinator_nonce, const std::string& rank_nonce) {
  const bool there = message.contains("proof") && message["proof"].is_string();
  if (there && crypto::equal_constant_time(message["proof"].get<std::string>(),
                                           proof(token, role, coordinator_nonce, rank_nonce))) {
    return {};
  }
  return Error{Code::unauthenticated, "the " + role + " does not hold the job's token"};
}

}  // namespace muster::protocol
