// Fields of JSON objects that nobody vouches for: one of another type is as good as missing. And
// the other way round: what JSON has no word for is left out.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace muster {

inline std::int64_t integer_field(const nlohmann::json& object, const char* name,
                                  std::int64_t otherwise = -1) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                             : otherwise;
}

inline double number_field(const nlohmann::json& object, const char* name, double otherwise) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

inline std::string text_field(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Only the numbers of an object.
inline nlohmann::json numbers_of(const nlohmann::json& object) {
  auto result = nlohmann::json::object();
  for (const auto& [name, value] : object.items()) {
    if (value.is_number()) result[name] = value;
  }
  return result;
}

// Json: nlohmann::json or nlohmann::ordered_json.
template <class Json>
void put_finite(Json& object, const char* name, double value) {
  if (std::isfinite(value)) object[name] = value;
}

}  // namespace muster
