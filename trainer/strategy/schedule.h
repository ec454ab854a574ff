// The learning rate of a step: arithmetic on (schedule, step, total steps, plateau state).
//
// Shapes: linear warm-up from 1/warmup to 1 over `warmupSteps`, then
//   constant     1
//   linear       1 -> minimumRatio at the last step
//   cosine       1 -> minimumRatio along half a cosine (Loshchilov and Hutter, SGDR, 2016)
//   step         gamma^(step / stepSize)
//   exponential  gamma^step
//   plateau      gamma^reductions, one reduction after `patience` validations without improvement
#pragma once

#include <cstdint>

#include "common/job/training_job.h"

namespace muster::strategy {

// `step` counts from 0; reductions is the plateau's count so far.
double learning_rate(const job::Schedule& schedule, double base, std::int64_t step,
                     std::int64_t total_steps, std::int64_t reductions);

}  // namespace muster::strategy
