// A token bucket. Pure: the clock is the caller's.
#pragma once

#include <algorithm>

namespace muster::kube {

class RateLimiter {
 public:
  // `qps` tokens a second, `burst` at most in store; qps 0: no limit.
  RateLimiter(double qps, int burst) : qps_(qps), burst_(burst), tokens_(burst) {}

  // Takes a token; the seconds to wait until it is there.
  double reserve(double now) {
    if (qps_ <= 0) return 0;
    if (last_ >= 0) tokens_ = std::min(burst_, tokens_ + (now - last_) * qps_);
    last_ = now;
    tokens_ -= 1;
    return tokens_ >= 0 ? 0 : -tokens_ / qps_;
  }

 private:
  double qps_, burst_, tokens_;
  double last_ = -1;
};

}  // namespace muster::kube
