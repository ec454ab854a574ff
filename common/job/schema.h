// The TrainingJob's fields, once: names, types, defaults, ranges, what they mean. Validation,
// defaults, docs/api.md and the CustomResourceDefinition all come from this tree.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/job/job.h"

namespace muster::job {

enum class Type {
  object,
  list,
  string,
  integer,
  number,
  boolean,
  free_object,
  string_map,
  integer_map
};

// Caps where a field sets none of its own: characters of a string, items of a list.
inline constexpr std::size_t string_limit = 4096, list_limit = 1024;

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
  std::size_t least = 0,
              most = 0;     // items of a list, characters of a string; most 0: the caps above
  std::string format = {};  // of a string: date-time
  std::string key = {};     // of a list of objects: the field by which they differ
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
