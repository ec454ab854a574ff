#include "operator/kube/time.h"

#include <time.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace muster::kube {

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<double> parse_time(const std::string& text) {
  tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  double fraction = 0;
  if (*rest == '.') {
    char* end = nullptr;
    fraction = std::strtod(rest, &end);
    rest = end;
  }
  if (*rest != 'Z' || rest[1] != 0) return std::nullopt;
  return static_cast<double>(::timegm(&parts)) + fraction;
}

static std::string format(double seconds, bool micros) {
  const auto whole = static_cast<time_t>(std::floor(seconds));
  tm parts{};
  ::gmtime_r(&whole, &parts);
  char text[40];
  const auto size = ::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  std::string result(text, size);
  if (micros) {
    std::snprintf(text, sizeof(text), ".%06d",
                  static_cast<int>((seconds - static_cast<double>(whole)) * 1e6));
    result += text;
  }
  return result + "Z";
}

std::string format_time(double seconds) {
  return format(seconds, false);
}

std::string format_micro_time(double seconds) {
  return format(seconds, true);
}

}  // namespace muster::kube
