#include "common/log.h"

#include <spdlog/fmt/chrono.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace muster::log {
namespace {

std::atomic<bool> json_lines{false};

struct Context {
  std::mutex mutex;
  std::vector<std::pair<std::string, std::string>> fields;
};

Context& context() {
  static Context instance;
  return instance;
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("muster",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

const char* name_of(Level level) {
  static constexpr const char* names[] = {"debug", "info", "warning", "error"};
  return names[static_cast<int>(level)];
}

std::string timestamp() {
  return fmt::format(
      "{:%Y-%m-%dT%H:%M:%S}Z",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::string json_line(Level level, std::string_view message, Fields fields) {
  nlohmann::ordered_json line{
      {"time", timestamp()}, {"level", name_of(level)}, {"message", std::string(message)}};
  for (const auto& [name, value] : context().fields) line[name] = value;
  for (const auto& f : fields) {
    const auto number = f.quoted ? nlohmann::ordered_json()
                                 : nlohmann::ordered_json::parse(f.value, nullptr, false);
    line[std::string(f.name)] = number.is_number() ? number : nlohmann::ordered_json(f.value);
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string escaped(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' '; });
}

// Whatever is written stays one line, and a value with spaces one word.
std::string text_line(Level level, std::string_view message, Fields fields) {
  std::string line = timestamp() + " " + name_of(level) + " " +
                     (has_control(message) ? escaped(message) : std::string(message));
  const auto add = [&line](std::string_view name, const std::string& value) {
    const bool plain = value.find_first_of(" \"=") == std::string::npos && !has_control(value);
    line += " " + std::string(name) + "=" + (plain ? value : escaped(value));
  };
  for (const auto& [name, value] : context().fields) add(name, value);
  for (const auto& f : fields) add(f.name, f.value);
  return line;
}

}  // namespace

Field::Field(std::string_view n, double v)
    : name(n), value(fmt::format("{}", v)), quoted(!std::isfinite(v)) {}

void set_level(Level level) {
  logger().set_level(spdlog_level(level));
}
void set_json(bool json) {
  json_lines = json;
}

void set_context(const std::string& name, const std::string& value) {
  const std::lock_guard lock(context().mutex);
  for (auto& [known, old] : context().fields) {
    if (known == name) {
      old = value;
      return;
    }
  }
  context().fields.emplace_back(name, value);
}

void write(Level level, std::string_view message, Fields fields) {
  if (!logger().should_log(spdlog_level(level))) return;
  const std::lock_guard lock(context().mutex);
  const auto line =
      json_lines ? json_line(level, message, fields) : text_line(level, message, fields);
  logger().log(spdlog_level(level), "{}", line);
}

}  // namespace muster::log
