// Logging. Only log.cpp includes spdlog: Debian's spdlog and fmt clash with the fmt inside Torch.
//
//   log::info("joined generation", {{"rank", 2}, {"world_size", 4}});
//   log::set_json(true);  // one JSON object a line on stderr, else text
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace muster::log {

// A field's value: text or number, turned into text by the constructors.
struct Field {
  std::string_view name;
  std::string value;
  bool quoted = true;
  Field(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
  Field(std::string_view n, const char* v) : name(n), value(v) {}
  Field(std::string_view n, std::string_view v) : name(n), value(v) {}
  Field(std::string_view n, double v);
  template <class T>
  requires std::is_integral_v<T> Field(std::string_view n, T v)
      : name(n), value(std::to_string(v)), quoted(false) {}
};
using Fields = std::initializer_list<Field>;

enum class Level { debug, info, warning, error };
void set_level(Level level);
void set_json(bool json);
// Every later line carries this field (rank, job).
void set_context(const std::string& name, const std::string& value);

void write(Level level, std::string_view message, Fields fields = {});
inline void debug(std::string_view m, Fields f = {}) {
  write(Level::debug, m, f);
}
inline void info(std::string_view m, Fields f = {}) {
  write(Level::info, m, f);
}
inline void warning(std::string_view m, Fields f = {}) {
  write(Level::warning, m, f);
}
inline void error(std::string_view m, Fields f = {}) {
  write(Level::error, m, f);
}

}  // namespace muster::log
