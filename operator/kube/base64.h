// Base64 (RFC 4648), by OpenSSL.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::kube {

std::string base64_encode(std::string_view bytes);

// Line breaks are passed over; nothing when it is not base64.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace muster::kube
