// Which pods the attempt should have: creates what is missing, removes what is too much.
#pragma once

#include "operator/trainingjob/plan.h"

namespace muster::trainingjob {

// Writes into plan: create, remove, incarnations of the status (then intent is set), announcements.
void match_pods(const JobObject& job, const job::Spec& spec, const Observed& observed, Plan& plan);

}  // namespace muster::trainingjob
