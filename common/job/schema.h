// The TrainingJob's fields, once: names, types, defaults, ranges, what they mean. Validation,
// defaults and docs/api.md all come from this tree.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/job/job.h"

namespace muster::job {

enum class Type { object, list, string, integer, number, boolean, free_object, string_map };

struct Field {
  std::string name = {};
  Type type = Type::string;
  std::string description = {};
  nlohmann::json preset = {};             // default; null: none, the field may be absent
  std::vector<std::string> choices = {};  // of a string
  std::optional<double> minimum = {}, maximum = {};
  bool above_minimum = false;  // the minimum itself is not allowed
  bool or_auto = false;        // the word `auto` is allowed and means the same as absent
  bool required = false;
  std::vector<Field> fields = {};  // of an object, or of the objects in a list
  Type item = Type::string;        // of a list
};

const Field& schema();

// The `config` of a built-in model, or null when this version has no such model.
const Field* builtin_config(const std::string& model);

// Checks `value` against `field`, writes defaults into it (only into objects that are there), and
// adds what is wrong to `problems`. `auto` becomes absent where it is allowed.
void check(const Field& field, nlohmann::json& value, const std::string& path,
           std::vector<Problem>& problems);

// The table of all fields for docs/api.md.
std::string api_document();

}  // namespace muster::job
