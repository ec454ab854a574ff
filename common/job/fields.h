// How a tree of Fields is written: integer("epochs", 1, 1, "Passes over the data."), required(...),
// at_most(...).
#pragma once

#include <utility>

#include "common/job/schema.h"

namespace muster::job::fields {

inline Field string(const char* name, const char* preset, const char* description) {
  return {.name = name,
          .type = Type::string,
          .description = description,
          .preset = preset == nullptr ? nlohmann::json() : nlohmann::json(preset)};
}
inline Field choice(const char* name, const char* preset, std::vector<std::string> choices,
                    const char* description) {
  auto f = string(name, preset, description);
  f.choices = std::move(choices);
  return f;
}
inline Field integer(const char* name, nlohmann::json preset, double minimum,
                     const char* description) {
  return {.name = name,
          .type = Type::integer,
          .description = description,
          .preset = std::move(preset),
          .minimum = minimum};
}
inline Field number(const char* name, nlohmann::json preset, double minimum,
                    const char* description) {
  return {.name = name,
          .type = Type::number,
          .description = description,
          .preset = std::move(preset),
          .minimum = minimum};
}
inline Field boolean(const char* name, bool preset, const char* description) {
  return {.name = name, .type = Type::boolean, .description = description, .preset = preset};
}
inline Field free_object(const char* name, const char* description,
                         nlohmann::json preset = nlohmann::json::object()) {
  return {.name = name,
          .type = Type::free_object,
          .description = description,
          .preset = std::move(preset)};
}
inline Field list(const char* name, Type item, nlohmann::json preset, const char* description) {
  return {.name = name,
          .type = Type::list,
          .description = description,
          .preset = std::move(preset),
          .item = item};
}
// Always there: its fields have defaults.
inline Field object(const char* name, std::vector<Field> fields, const char* description) {
  return {.name = name,
          .type = Type::object,
          .description = description,
          .preset = nlohmann::json::object(),
          .fields = std::move(fields)};
}
// There only when the user writes it.
inline Field optional(Field f) {
  f.preset = nlohmann::json();
  return f;
}
inline Field required(Field f) {
  f.required = true;
  f.preset = nlohmann::json();
  return f;
}
inline Field with_auto(Field f) {
  f.or_auto = true;
  return f;
}
inline Field at_most(Field f, double maximum) {
  f.maximum = maximum;
  return f;
}
inline Field above(Field f) {
  f.above_minimum = true;
  return f;
}
inline Field at_least(double minimum, Field f) {
  f.minimum = minimum;
  return f;
}
// At most so many items of a list, or characters of a string.
inline Field up_to(std::size_t most, Field f) {
  f.most = most;
  return f;
}

}  // namespace muster::job::fields
