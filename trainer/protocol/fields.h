// Fields of messages that nobody vouches for: of another type is as good as missing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace muster::protocol {

inline std::int64_t integer(const nlohmann::json& message, const char* name,
                            std::int64_t otherwise = -1) {
  const auto found = message.find(name);
  return found != message.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                              : otherwise;
}

inline std::string text(const nlohmann::json& message, const char* name) {
  const auto found = message.find(name);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

// Only the numbers of an object.
inline nlohmann::json numbers(const nlohmann::json& message) {
  auto result = nlohmann::json::object();
  for (const auto& [name, value] : message.items()) {
    if (value.is_number()) result[name] = value;
  }
  return result;
}

}  // namespace muster::protocol
