// Rank and coordinator prove to each other that they hold the job's token, which never travels.
//
//   coordinator -> rank   challenge {version, nonce}
//   rank -> coordinator   proof {nonce, proof, hello}
//   coordinator -> rank   welcome {proof, spec, jobUid}
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/result.h"

namespace muster::protocol {

std::string make_nonce();
std::string proof(const std::string& token, const std::string& role,
                  const std::string& coordinator_nonce, const std::string& rank_nonce);
// `role`: rank | coordinator. Errors: Code::unauthenticated.
Status check_proof(const nlohmann::json& message, const std::string& token, const std::string& role,
                   const std::string& coordinator_nonce, const std::string& rank_nonce);

}  // namespace muster::protocol
