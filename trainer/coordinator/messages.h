// The structs of client.h as JSON and back. Readers trust nothing: what is missing or of another
// type is an error.
#pragma once

#include <nlohmann/json.hpp>

#include "trainer/coordinator/client.h"

namespace muster::coordinator {

nlohmann::json to_json(const Hello& hello);
nlohmann::json to_json(const Report& report, double phase_age);
Result<Assignment> assignment_from_json(const nlohmann::json& json);
Result<Boundary> boundary_from_json(const nlohmann::json& json);

}  // namespace muster::coordinator
