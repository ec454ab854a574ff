// Kubernetes' timestamps (RFC 3339, UTC) and seconds since 1970.
#pragma once

#include <optional>
#include <string>

namespace muster::kube {

double unix_seconds();  // of the system's clock

// "2026-12-01T16:54:58Z"; a fraction is accepted. Nothing when it is no such time.
std::optional<double> parse_time(const std::string& text);

std::string format_time(double seconds);        // whole seconds: metav1.Time
std::string format_micro_time(double seconds);  // microseconds: metav1.MicroTime

}  // namespace muster::kube
