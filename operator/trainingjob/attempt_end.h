// Has the attempt ended, and why? From its pods and the coordinator's words.
#pragma once

#include <optional>

#include "operator/trainingjob/failure.h"
#include "operator/trainingjob/plan.h"

namespace muster::trainingjob {

struct EndOfAttempt {
  AttemptEnd end;
  bool disruption = false;  // nobody's fault: does not count against backoffLimit
  std::string pod, node;
};

// Nothing while it goes on. A pod that left (exit code 75), or that was deleted or evicted before
// the membership was formed, does not end an attempt: a replacement joins.
std::optional<EndOfAttempt> end_of_attempt(const job::Spec& spec, const JobStatus& status,
                                           const Observed& observed, double now);

// A worker that is gone without harm to the others, and wants a replacement: it left at a step's
// boundary, or is on its way out.
bool wants_replacement(const PodObject& worker);

}  // namespace muster::trainingjob
