// Counters of jobs by what happens to them. No names or uids of jobs: those would never go away.
#pragma once

#include <memory>
#include <string>

namespace prometheus {
class Registry;
}

namespace muster::trainingjob {

class Metrics {
 public:
  explicit Metrics(prometheus::Registry& registry, const std::string& version);
  ~Metrics();
  void created();
  void succeeded();
  void failed();
  void restarted();
  void deleted();
  void pods_created(double seconds);  // since the job was created
  void running(double seconds);       // the same
  // Number of jobs in a phase, at the moment of a scrape.
  void set_phase(const std::string& phase, int jobs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::trainingjob
