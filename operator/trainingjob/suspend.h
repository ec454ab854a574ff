// runPolicy.suspend: the coordinator is asked to stop at a step's boundary, with a checkpoint; then
// the pods go.
#pragma once

#include "operator/trainingjob/plan.h"

namespace muster::trainingjob {

// True when the job is, or is about to be, suspended: nothing else is to be planned.
bool suspend(const job::Spec& spec, const Observed& observed, double now, Plan& plan);

}  // namespace muster::trainingjob
