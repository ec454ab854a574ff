// The CustomResourceDefinition of TrainingJob, generated: the spec from common/job's fields, the
// status from the list here, and the rules between fields (common/job/parse.cpp) once more in CEL,
// with what the API server refuses a change of. crds/muster.dev_trainingjobs.yaml is what
// `muster-crd` prints, and a test compares them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/job/schema.h"

namespace muster::crd {

// The fields of `status`, as operator/trainingjob/job_object.cpp writes them.
const job::Field& status_schema();

// Adds x-kubernetes-validations to the schemas of spec and of its parts.
void add_rules(nlohmann::ordered_json& spec);

nlohmann::ordered_json definition();

// As YAML, every text in quotes.
std::string to_yaml(const nlohmann::ordered_json& document);

}  // namespace muster::crd
