// Conditions and the figures of the status.
#pragma once

#include "operator/trainingjob/plan.h"

namespace muster::trainingjob {

// Sets a condition; the transition time moves only when the status flips. True when anything but
// the message changed.
bool set_condition(JobStatus& status, const std::string& type, bool value,
                   const std::string& reason, const std::string& message, double now);
// A condition that was never set is not worth a False.
bool clear_condition(JobStatus& status, const std::string& type, const std::string& reason,
                     double now);

// Counts the attempt's pods, and takes progress, generation and strategy from the coordinator.
void count_pods(const job::Spec& spec, const Observed& observed, JobStatus& status);
void take_state(const nlohmann::json& state, JobStatus& status, double now);

}  // namespace muster::trainingjob
