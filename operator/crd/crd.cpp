#include "operator/crd/crd.h"

#include <yaml-cpp/yaml.h>

#include <cmath>

namespace muster::crd {
namespace {

using job::Field;
using job::Type;
using nlohmann::ordered_json;

// 3, not 3.0: what is whole is written so.
ordered_json figure(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

void put_range(ordered_json& schema, const Field& field) {
  if (field.minimum) schema["minimum"] = figure(*field.minimum);
  if (field.minimum && field.above_minimum) schema["exclusiveMinimum"] = true;
  if (field.maximum) schema["maximum"] = figure(*field.maximum);
}

// A number, or the word auto. A whole number has a type of its own for that. There is none for
// other numbers, so it is said without a type: what is a number is in range, what is a string is
// "auto", and nothing else is allowed.
ordered_json number_or_auto(const Field& field) {
  ordered_json schema;
  if (field.type == Type::integer) {
    schema["x-kubernetes-int-or-string"] = true;
    schema["anyOf"] = {{{"type", "integer"}}, {{"type", "string"}}};
    schema["pattern"] = "^auto$";
  } else {
    schema["x-kubernetes-preserve-unknown-fields"] = true;
    schema["pattern"] = "^auto$";
    schema["maxProperties"] = 0;
    schema["maxItems"] = 0;
    schema["not"] = {{"enum", ordered_json::array(
                                  {true, false, ordered_json::object(), ordered_json::array()})}};
  }
  put_range(schema, field);
  return schema;
}

ordered_json object_of(const Field& field);

ordered_json schema_of(const Field& field, Type type, bool item = false) {
  if (field.or_auto && !item) return number_or_auto(field);
  ordered_json schema;
  switch (type) {
    case Type::object:
      return object_of(field);
    case Type::list:
      schema["type"] = "array";
      if (field.least > 0) schema["minItems"] = field.least;
      schema["maxItems"] = field.most > 0 ? field.most : job::list_limit;
      if (!field.key.empty()) {
        schema["x-kubernetes-list-type"] = "map";
        schema["x-kubernetes-list-map-keys"] = {field.key};
      }
      schema["items"] = schema_of(field, field.item, true);
      break;
    case Type::string:
      schema["type"] = "string";
      if (!field.format.empty()) schema["format"] = field.format;
      if (!field.choices.empty()) {
        schema["enum"] = field.choices;
      } else {
        if (field.required && !item) schema["minLength"] = 1;
        schema["maxLength"] = field.most > 0 && !item ? field.most : job::string_limit;
      }
      break;
    case Type::integer:
      schema["type"] = "integer";
      schema["format"] = "int64";
      put_range(schema, field);
      break;
    case Type::number:
      schema["type"] = "number";
      put_range(schema, field);
      break;
    case Type::boolean:
      schema["type"] = "boolean";
      break;
    case Type::free_object:
      schema["type"] = "object";
      schema["x-kubernetes-preserve-unknown-fields"] = true;
      break;
    case Type::string_map:
    case Type::integer_map:
      schema["type"] = "object";
      schema["additionalProperties"] = {{"type", type == Type::string_map ? "string" : "integer"}};
      break;
  }
  return schema;
}

std::string description_of(const Field& field) {
  std::string text = field.description;
  const bool shown = !field.preset.is_null() && field.type != Type::object &&
                     field.type != Type::free_object && field.preset != "" &&
                     field.preset != nlohmann::json::array();
  if (shown) text += " Default: " + field.preset.dump() + ".";
  return text;
}

ordered_json object_of(const Field& field) {
  ordered_json schema{{"type", "object"}};
  for (const auto& child : field.fields) {
    if (child.required) schema["required"].push_back(child.name);
    ordered_json described{{"description", description_of(child)}};
    described.update(schema_of(child, child.type));
    schema["properties"][child.name] = std::move(described);
  }
  return schema;
}

const Field& spec_fields() {
  for (const auto& field : job::schema().fields) {
    if (field.name == "spec") return field;
  }
  std::abort();  // the tree has one
}

ordered_json root_schema() {
  auto spec = object_of(spec_fields());
  // The one thing that has to be there for the scale subresource.
  spec["properties"]["workers"]["default"] = ordered_json::object();
  spec["properties"]["workers"]["properties"]["replicas"]["default"] = 1;
  add_rules(spec);
  auto status = object_of(status_schema());
  ordered_json described_spec{{"description", spec_fields().description}};
  described_spec.update(spec);
  ordered_json described_status{{"description", status_schema().description}};
  described_status.update(status);
  ordered_json name{
      {"type", "string"}, {"maxLength", 45}, {"pattern", "^[a-z]([-a-z0-9]*[a-z0-9])?$"}};
  return {
      {"description", "A training run: what is trained, on what, how, and by how many workers."},
      {"type", "object"},
      {"required", {"spec"}},
      {"properties",
       {{"apiVersion", {{"type", "string"}}},
        {"kind", {{"type", "string"}}},
        {"metadata", {{"type", "object"}, {"properties", {{"name", name}}}}},
        {"spec", described_spec},
        {"status", described_status}}}};
}

ordered_json column(const char* name, const char* type, const char* path, const char* description,
                    int priority = 0) {
  ordered_json c{{"name", name}, {"type", type}, {"jsonPath", path}, {"description", description}};
  if (priority > 0) c["priority"] = priority;
  return c;
}

ordered_json columns() {
  return {column("Phase", "string", ".status.phase", "Where the job is in its life."),
          column("Strategy", "string", ".status.strategy.effective", "How the workers co-operate."),
          column("Workers", "string", ".status.workers",
                 "Workers that are there, of those that should be."),
          column("Step", "integer", ".status.progress.step", "Steps that are done."),
          column("Loss", "string", ".status.progress.loss", "Of the last reported step."),
          column("Restarts", "integer", ".status.restarts", "Attempts after the first."),
          column("Age", "date", ".metadata.creationTimestamp", "Since the job was created."),
          column("Steps", "integer", ".status.progress.totalSteps", "Steps that the run has.", 1),
          column("Message", "string", ".status.message", "What a person should know now.", 1)};
}

void emit(YAML::Emitter& out, const ordered_json& value) {
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, child] : value.items()) {
      out << YAML::Key << key << YAML::Value;
      emit(out, child);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    out << YAML::BeginSeq;
    for (const auto& child : value) emit(out, child);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    out << YAML::DoubleQuoted << value.get<std::string>();
  } else if (value.is_boolean()) {
    out << value.get<bool>();
  } else if (value.is_number_integer()) {
    out << value.get<std::int64_t>();
  } else {
    out << value.get<double>();
  }
}

}  // namespace

ordered_json definition() {
  ordered_json version{{"name", "v1alpha1"},
                       {"served", true},
                       {"storage", true},
                       {"additionalPrinterColumns", columns()},
                       {"subresources",
                        {{"status", ordered_json::object()},
                         {"scale",
                          {{"specReplicasPath", ".spec.workers.replicas"},
                           {"statusReplicasPath", ".status.replicaStatuses.worker.active"},
                           {"labelSelectorPath", ".status.selector"}}}}},
                       {"schema", {{"openAPIV3Schema", root_schema()}}}};
  return {{"apiVersion", "apiextensions.k8s.io/v1"},
          {"kind", "CustomResourceDefinition"},
          {"metadata", {{"name", "trainingjobs.muster.dev"}}},
          {"spec",
           {{"group", "muster.dev"},
            {"scope", "Namespaced"},
            {"names",
             {{"kind", "TrainingJob"},
              {"listKind", "TrainingJobList"},
              {"plural", "trainingjobs"},
              {"singular", "trainingjob"},
              {"shortNames", {"tj"}},
              {"categories", {"ml"}}}},
            {"versions", ordered_json::array({version})}}}};
}

std::string to_yaml(const ordered_json& document) {
  YAML::Emitter out;
  out.SetIndent(2);
  emit(out, document);
  return std::string(out.c_str()) + "\n";
}

}  // namespace muster::crd
