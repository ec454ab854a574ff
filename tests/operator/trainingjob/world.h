// A TrainingJob and its pods as an API server and kubelets would hold them, moved on by plan() and
// by what a test lets happen. It carries plans out as the reconciler does: the intent first,
// creations by name, deletions by uid.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/exit_code.h"
#include "common/job/job.h"
#include "operator/trainingjob/plan.h"

namespace muster::trainingjob {

class World {
 public:
  // `settings`: as of `muster run --set`.
  explicit World(const std::vector<std::string>& settings = {}) {
    job_.name = "penguins";
    job_.name_space = "default";
    job_.uid = "uid-of-job";
    job_.generation = 1;
    job_.created = now;
    job_.document = (*job::read_documents(R"(
apiVersion: muster.dev/v1alpha1
kind: TrainingJob
metadata: {name: penguins, namespace: default}
spec:
  model: {tabular: {}}
  data: {format: csv, train: [penguins.csv]}
  training: {epochs: 1}
  workers: {replicas: 2}
)",
                                          "world"))[0];
    edit(settings);
    job_.generation = 1;
  }

  // A change of the spec by its owner.
  void edit(const std::vector<std::string>& settings) {
    for (const auto& setting : settings)
      EXPECT_TRUE(job::set_path(job_.document, setting).ok()) << setting;
    ++job_.generation;
  }

  Plan look() { return plan(job_, observed(), now); }

  // Reconciles until nothing is asked for any more: the number of rounds that did something.
  int settle() {
    for (int rounds = 0; rounds < 20; ++rounds) {
      const auto p = look();
      deleted_ = deleted_ || p.delete_job;
      const bool nothing =
          !p.intent && !p.news && p.create.empty() && p.remove.empty() && !p.delete_job;
      if (nothing || p.delete_job) return rounds;
      carry_out(p);
    }
    ADD_FAILURE() << "does not settle: " << status().phase << " " << status().message;
    return 20;
  }

  void carry_out(const Plan& p) {
    job_.status = status_of_json(to_json(p.status, "x"));
    for (const auto& announcement : p.announce) events.push_back(announcement.reason);
    for (const auto& removal : p.remove) {
      if (auto* pod = by_uid(removal.uid)) begin_delete(*pod);
    }
    for (const auto& slot : p.create) create(slot);
    ASSERT_NO_FATAL_FAILURE(check());
  }

  // What kubelets do with pods that are being deleted: TERM, and a trainer leaves with 75.
  void terminate() {
    for (auto& pod : pods_) {
      if (pod->deleting && !pod->ended()) end(*pod, exit_left);
    }
    std::erase_if(pods_, [](const auto& pod) { return pod->deleting; });
  }

  void run_all() {
    for (auto& pod : pods_) {
      if (pod->phase == PodObject::Phase::pending) pod->phase = PodObject::Phase::running;
    }
  }

  void finish_all() {
    for (auto& pod : pods_) {
      if (!pod->ended()) end(*pod, 0);
    }
  }

  void fail(const std::string& member, int exit_code) { end(pod(member), exit_code); }

  void evict(const std::string& member) {
    pod(member).disruption = "Evicted";
    begin_delete(pod(member));
  }

  static void end(PodObject& pod, int exit_code) {
    pod.exit_code = exit_code;
    pod.phase = exit_code == 0 ? PodObject::Phase::succeeded : PodObject::Phase::failed;
    pod.ready = false;
  }

  // The newest pod of a member ("coordinator", "worker-1").
  PodObject& pod(const std::string& member) {
    PodObject* newest = nullptr;
    for (auto& pod : pods_) {
      if (pod->member() == member && (newest == nullptr || pod->incarnation > newest->incarnation))
        newest = pod.get();
    }
    if (newest == nullptr) throw std::runtime_error("no pod " + member);
    return *newest;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& pod : pods_) {
      if (!pod->ended() && !pod->deleting) names.push_back(pod->name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const JobStatus& status() const { return job_.status; }
  JobObject& job() { return job_; }
  std::vector<std::shared_ptr<PodObject>>& pods() { return pods_; }
  bool deleted() const { return deleted_; }

  double now = 1'000'000;
  nlohmann::json state;  // what the coordinator answers
  std::optional<Refusal> refusal;
  std::vector<std::string> events;

 private:
  Observed observed() const {
    Observed result;
    result.pods.assign(pods_.begin(), pods_.end());
    result.state = state;
    result.refusal = refusal;
    return result;
  }

  void begin_delete(PodObject& pod) { pod.deleting = true; }

  PodObject* by_uid(const std::string& uid) {
    for (auto& pod : pods_) {
      if (pod->uid == uid) return pod.get();
    }
    return nullptr;
  }

  void create(const PodSlot& slot) {
    auto pod = std::make_shared<PodObject>();
    pod->name = pod_name(job_.name, slot.role, slot.index, slot.incarnation);
    pod->name_space = job_.name_space;
    pod->uid = "uid-" + std::to_string(++uids_);
    pod->job_uid = job_.uid;
    pod->job_key = job_.key();
    pod->role = slot.role;
    pod->index = slot.index;
    pod->incarnation = slot.incarnation;
    pod->attempt = job_.status.attempt;
    // An API server refuses a second object of a name, also while the first is being deleted.
    for (const auto& other : pods_)
      ASSERT_NE(other->name, pod->name) << "two pods share an identity";
    pods_.push_back(std::move(pod));
  }

  // Never two live pods for one place.
  void check() const {
    std::set<std::string> places;
    for (const auto& pod : pods_) {
      if (pod->ended() || pod->deleting) continue;
      ASSERT_TRUE(places.insert(pod->member()).second) << "two pods are " << pod->member();
    }
  }

  JobObject job_;
  std::vector<std::shared_ptr<PodObject>> pods_;
  int uids_ = 0;
  bool deleted_ = false;
};

}  // namespace muster::trainingjob
