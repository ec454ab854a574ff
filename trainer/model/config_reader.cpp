#include "trainer/model/config_reader.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace muster::model {
namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

const std::string& nearest(const std::string& key, const std::vector<std::string>& known) {
  return *std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(key, a) < edit_distance(key, b);
  });
}

}  // namespace

ConfigReader::ConfigReader(std::string model, const nlohmann::json& config)
    : model_(std::move(model)), config_(config) {
  if (!config_.is_object() && !config_.is_null()) {
    problem_ = "spec.model.builtin.config: must be a mapping, but is " + config_.dump();
  }
}

const nlohmann::json* ConfigReader::find(const std::string& key) {
  known_.push_back(key);
  if (!config_.is_object()) return nullptr;
  const auto found = config_.find(key);
  return found == config_.end() ? nullptr : &*found;
}

void ConfigReader::fail(const std::string& key, const std::string& must) {
  if (!problem_.empty()) return;
  problem_ =
      "spec.model.builtin.config." + key + ": must be " + must + ", but is " + config_[key].dump();
}

std::int64_t ConfigReader::integer(const std::string& key, std::int64_t fallback,
                                   std::int64_t at_least) {
  const auto* value = find(key);
  if (value == nullptr) return fallback;
  // A cap far above any model, so that products of two sizes cannot overflow.
  constexpr std::int64_t kMost = 1 << 24;
  if (value->is_number_integer() && *value >= at_least && *value <= kMost) {
    return value->get<std::int64_t>();
  }
  fail(key, "an integer from " + std::to_string(at_least) + " to " + std::to_string(kMost));
  return fallback;
}

double ConfigReader::number(const std::string& key, double fallback) {
  const auto* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_number()) return value->get<double>();
  fail(key, "a number");
  return fallback;
}

bool ConfigReader::boolean(const std::string& key, bool fallback) {
  const auto* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail(key, "true or false");
  return fallback;
}

std::string ConfigReader::text(const std::string& key, const std::string& fallback) {
  const auto* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  fail(key, "a text");
  return fallback;
}

std::vector<std::int64_t> ConfigReader::integers(const std::string& key,
                                                 std::vector<std::int64_t> fallback,
                                                 std::int64_t at_least) {
  const auto* value = find(key);
  if (value == nullptr) return fallback;
  const bool good = value->is_array() && std::all_of(value->begin(), value->end(), [&](auto& v) {
                      return v.is_number_integer() && v >= at_least && v <= (1 << 24);
                    });
  if (good) return value->get<std::vector<std::int64_t>>();
  fail(key, "a list of integers, each at least " + std::to_string(at_least));
  return fallback;
}

Status ConfigReader::finish() const {
  if (!problem_.empty()) return Error{Code::invalid_job, problem_};
  if (!config_.is_object()) return {};
  for (const auto& [key, value] : config_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    return Error{Code::invalid_job, "spec.model.builtin.config." + key + ": the model " + model_ +
                                        " has no such field; did you mean " + nearest(key, known_) +
                                        "?"};
  }
  return {};
}

}  // namespace muster::model
