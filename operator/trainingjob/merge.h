// Merges a person's pod template over ours, as kubectl's strategic merge does: objects by field,
// lists of named things by their name, other lists as a whole; null removes.
#pragma once

#include <nlohmann/json.hpp>

namespace muster::trainingjob {

// The merged template. Values of another type than ours replace them: the API server judges.
nlohmann::json strategic_merge(nlohmann::json base, const nlohmann::json& over);

}  // namespace muster::trainingjob
