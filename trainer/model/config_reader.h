// Reads a built-in model's `config`: typed, with defaults; unknown keys and wrong values are errors
// that name the field and the remedy.
//
//   ConfigReader config("gpt2", json);
//   const auto layers = config.integer("layers", 12, /*at_least=*/1);
//   MUSTER_CHECK_OK(config.finish());
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/result.h"

namespace muster::model {

class ConfigReader {
 public:
  ConfigReader(std::string model, const nlohmann::json& config);

  std::int64_t integer(const std::string& key, std::int64_t fallback, std::int64_t at_least);
  double number(const std::string& key, double fallback);
  bool boolean(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  std::vector<std::int64_t> integers(const std::string& key, std::vector<std::int64_t> fallback,
                                     std::int64_t at_least);

  // The first wrong value, or a key that nobody has read. Call it after the last read.
  Status finish() const;

 private:
  const nlohmann::json* find(const std::string& key);
  void fail(const std::string& key, const std::string& must);

  std::string model_;
  const nlohmann::json& config_;
  std::vector<std::string> known_;
  std::string problem_;
};

}  // namespace muster::model
