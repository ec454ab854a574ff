// Keeps a Store equal to what the API server holds, by a list and then watches.
//
//   StoreSink<Pod> sink(store, "", pod_of_json, [&](const Pod* before, const Pod* after) { ... });
//   Reflector reflector(client, pods, {.label_selector = "app.kubernetes.io/managed-by=muster"},
//                       sink);
//   reflector.start();  ...  reflector.synced()  ...  reflector.stop();
//
// Guarantees: changes of one object arrive in the server's order; after a lost watch nothing is
// missed (what is gone meanwhile is reported as removed); a silent connection ends after
// idle_seconds; failures back off from 0.8 s to 30 s.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>

#include "common/json_fields.h"
#include "operator/kube/client.h"
#include "operator/kube/reflector_state.h"
#include "operator/kube/store.h"

namespace muster::kube {

// Where a reflector puts what it sees. One thread calls.
class ReflectorSink {
 public:
  virtual ~ReflectorSink() = default;
  virtual void put(const json& object) = 0;
  virtual void remove(const json& object) = 0;
  // What is put between these two is all there is.
  virtual void begin_replace() = 0;
  virtual void end_replace() = 0;
};

// "namespace/name", or "name".
std::string key_of(const json& object);

template <class T>
class StoreSink final : public ReflectorSink {
 public:
  using Pointer = typename Store<T>::Pointer;
  // Only what is used is kept: `project` takes it out of the object.
  using Project = std::function<Pointer(const json&)>;
  // Null before: added; null after: removed.
  using Changed = std::function<void(const Pointer& before, const Pointer& after)>;

  // `name_space`: the part of the store that this reflector keeps; empty: all of it.
  StoreSink(Store<T>& store, const std::string& name_space, Project project, Changed changed)
      : store_(store),
        prefix_(name_space.empty() ? "" : name_space + "/"),
        project_(std::move(project)),
        changed_(std::move(changed)) {}

  void put(const json& object) override {
    const auto key = key_of(object);
    if (replacing_) seen_.insert(key);
    auto after = project_(object);
    const auto before = store_.put(key, after);
    changed_(before, after);
  }
  void remove(const json& object) override { forget(key_of(object)); }
  void begin_replace() override {
    replacing_ = true;
    seen_.clear();
  }
  void end_replace() override {
    replacing_ = false;
    for (const auto& key : store_.keys()) {
      if (key.starts_with(prefix_) && !seen_.contains(key)) forget(key);
    }
    seen_.clear();
  }

 private:
  void forget(const std::string& key) {
    if (const auto before = store_.erase(key)) changed_(before, nullptr);
  }

  Store<T>& store_;
  const std::string prefix_;
  const Project project_;
  const Changed changed_;
  bool replacing_ = false;
  std::set<std::string> seen_;
};

struct ReflectorOptions {
  std::string name_space = {};      // empty: all
  std::string label_selector = {};  // percent-encoded where needed
  double idle_seconds = 130;        // bookmarks come once a minute
  bool streaming = true;            // ask for streamed lists
};

class Reflector {
 public:
  Reflector(Client& client, ResourceType type, ReflectorOptions options, ReflectorSink& sink);
  ~Reflector();

  void start();
  // The client's transport must have been cancelled, or a watch goes on until its end.
  void stop();
  bool synced() const { return synced_; }

 private:
  void run();
  void list_page();
  void watch();
  // False when the stream must end.
  bool on_event(std::string_view line, std::int64_t& events);
  bool wait(double seconds);

  Client& client_;
  const ResourceType type_;
  const ReflectorOptions options_;
  ReflectorSink& sink_;
  ReflectorState state_;
  bool paging_ = false;
  std::atomic<bool> synced_{false}, stopping_{false};
  std::mutex mutex_;
  std::condition_variable stopped_;
  std::thread thread_;
};

}  // namespace muster::kube
