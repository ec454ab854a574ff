// What the API server holds, as far as it is watched: shared by all readers, changed by one
// reflector. Objects are immutable; a reader keeps what it got.
//
//   Store<Pod> store({{"owner", [](const Pod& p) { return p.owner_uid; }}});
//   for (const auto& pod : store.by("owner", uid)) ...
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace muster::kube {

template <class T>
class Store {
 public:
  using Pointer = std::shared_ptr<const T>;
  // The value by which an object is found; empty: it is not in this index.
  using IndexFunction = std::function<std::string(const T&)>;

  explicit Store(std::map<std::string, IndexFunction> indexes = {})
      : functions_(std::move(indexes)) {}

  Pointer get(const std::string& key) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second;
  }

  // In the order of their keys.
  std::vector<Pointer> by(const std::string& index, const std::string& value) const {
    const std::shared_lock lock(mutex_);
    std::vector<Pointer> result;
    const auto at = indexes_.find(index);
    if (at == indexes_.end()) return result;
    const auto found = at->second.find(value);
    if (found == at->second.end()) return result;
    for (const auto& [key, object] : found->second) result.push_back(object);
    return result;
  }

  std::vector<Pointer> all() const {
    const std::shared_lock lock(mutex_);
    std::vector<Pointer> result;
    result.reserve(objects_.size());
    for (const auto& [key, object] : objects_) result.push_back(object);
    return result;
  }

  std::size_t size() const {
    const std::shared_lock lock(mutex_);
    return objects_.size();
  }

  // What was there before, or null.
  Pointer put(const std::string& key, Pointer object) {
    const std::unique_lock lock(mutex_);
    auto& slot = objects_[key];
    auto before = std::exchange(slot, std::move(object));
    if (before) remove_from_indexes(key, *before);
    for (const auto& [name, function] : functions_) {
      if (auto value = function(*slot); !value.empty()) indexes_[name][value][key] = slot;
    }
    return before;
  }

  Pointer erase(const std::string& key) {
    const std::unique_lock lock(mutex_);
    const auto found = objects_.find(key);
    if (found == objects_.end()) return nullptr;
    auto before = found->second;
    remove_from_indexes(key, *before);
    objects_.erase(found);
    return before;
  }

  std::vector<std::string> keys() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::string> result;
    for (const auto& [key, object] : objects_) result.push_back(key);
    return result;
  }

 private:
  void remove_from_indexes(const std::string& key, const T& object) {
    for (const auto& [name, function] : functions_) {
      const auto value = function(object);
      if (value.empty()) continue;
      auto& index = indexes_[name];
      const auto found = index.find(value);
      if (found == index.end()) continue;
      found->second.erase(key);
      if (found->second.empty()) index.erase(found);
    }
  }

  const std::map<std::string, IndexFunction> functions_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, Pointer> objects_;
  std::map<std::string, std::unordered_map<std::string, std::map<std::string, Pointer>>> indexes_;
};

}  // namespace muster::kube
