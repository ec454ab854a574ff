#include "trainer/strategy/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster::strategy {
namespace {

// 0 at the first step after the warm-up, 1 at the last step of the run.
double progress(std::int64_t step, std::int64_t warmup, std::int64_t total) {
  const auto span = static_cast<double>(std::max<std::int64_t>(1, total - 1 - warmup));
  return std::clamp(static_cast<double>(step - warmup) / span, 0.0, 1.0);
}

std::int64_t decay_period(const job::Schedule& schedule, std::int64_t total) {
  if (schedule.step_size > 0) return schedule.step_size;
  return std::max<std::int64_t>(1, (total + 2) / 3);
}

double factor(const job::Schedule& s, std::int64_t step, std::int64_t total,
              std::int64_t reductions) {
  const double low = s.minimum_ratio;
  const double at = progress(step, s.warmup_steps, total);
  const auto after_warmup = step - s.warmup_steps;
  if (s.type == "linear") return 1 - (1 - low) * at;
  if (s.type == "cosine") return low + (1 - low) * 0.5 * (1 + std::cos(std::numbers::pi * at));
  if (s.type == "step") {
    const auto decays = after_warmup / decay_period(s, total);
    return std::pow(s.gamma, static_cast<double>(decays));
  }
  if (s.type == "exponential") return std::pow(s.gamma, static_cast<double>(after_warmup));
  if (s.type == "plateau") return std::pow(s.gamma, static_cast<double>(reductions));
  return 1;
}

}  // namespace

double learning_rate(const job::Schedule& schedule, double base, std::int64_t step,
                     std::int64_t total_steps, std::int64_t reductions) {
  if (step < schedule.warmup_steps) {
    return base * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  return base * factor(schedule, step, total_steps, reductions);
}

}  // namespace muster::strategy
