#include "operator/kube/event_recorder.h"

#include <chrono>

#include "common/log.h"
#include "operator/kube/time.h"

namespace muster::kube {
namespace {

constexpr std::size_t queue_limit = 1000;
constexpr std::size_t note_limit = 1024;
constexpr double series_seconds = 360;

std::string series_key(const Event& event) {
  return event.regarding.uid + "|" + event.type + "|" + event.reason + "|" + event.action;
}

}  // namespace

EventRecorder::EventRecorder(Client& client, std::string controller, std::string instance)
    : client_(client),
      controller_(std::move(controller)),
      instance_(std::move(instance)),
      thread_([this] { run(); }) {}

EventRecorder::~EventRecorder() {
  stop(0);
}

void EventRecorder::record(Event event) {
  const std::lock_guard lock(mutex_);
  if (queue_.size() >= queue_limit || stopping_) {
    ++dropped_;
    return;
  }
  queue_.push_back(std::move(event));
  changed_.notify_all();
}

std::int64_t EventRecorder::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void EventRecorder::stop(double seconds) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [this] { return queue_.empty() && idle_; });
    stopping_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EventRecorder::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (queue_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto event = std::move(queue_.front());
    queue_.pop_front();
    idle_ = false;
    lock.unlock();
    send(event);
    lock.lock();
    idle_ = true;
    changed_.notify_all();
  }
}

void EventRecorder::send(const Event& event) {
  const double now = unix_seconds();
  std::erase_if(series_,
                [&](const auto& entry) { return now - entry.second.last > series_seconds; });
  const auto key = series_key(event);
  if (const auto found = series_.find(key); found != series_.end()) {
    auto& sent = found->second;
    ++sent.count;
    sent.last = now;
    const json patch{
        {"series", {{"count", sent.count}, {"lastObservedTime", format_micro_time(now)}}}};
    if (client_.merge_patch(events, sent.name_space, sent.name, patch).ok()) return;
    series_.erase(found);
  }
  const auto& about = event.regarding;
  const auto name_space = about.name_space.empty() ? "default" : about.name_space;
  const auto name = about.name + "." + std::to_string(static_cast<std::int64_t>(now * 1e6)) + "-" +
                    std::to_string(++number_);
  const json body{{"apiVersion", "events.k8s.io/v1"},
                  {"kind", "Event"},
                  {"metadata", {{"name", name}, {"namespace", name_space}}},
                  {"eventTime", format_micro_time(now)},
                  {"reportingController", controller_},
                  {"reportingInstance", instance_},
                  {"action", event.action},
                  {"reason", event.reason},
                  {"type", event.type},
                  {"note", event.note.substr(0, note_limit)},
                  {"regarding",
                   {{"apiVersion", about.api_version},
                    {"kind", about.kind},
                    {"namespace", name_space},
                    {"name", about.name},
                    {"uid", about.uid}}}};
  const auto created = client_.create(events, name_space, body);
  if (created.ok()) {
    series_[key] = {name, name_space, now, 1};
  } else if (created.error().code != Code::aborted) {
    log::warning(created.error().message);
  }
}

}  // namespace muster::kube
