#include "operator/kube/reflector_state.h"

#include <algorithm>
#include <cmath>

namespace muster::kube {
namespace {

constexpr double first_pause = 0.8, longest_pause = 30;  // seconds; client-go's
constexpr double health_seconds = 120;  // after which earlier failures no longer count

}  // namespace

double ReflectorState::pause(double jitter) const {
  if (failures_ == 0) return 0;
  const double base = std::min(longest_pause, first_pause * std::pow(2, failures_ - 1));
  return base * (1 + jitter);
}

std::string ReflectorState::query(int timeout_seconds) const {
  const auto watch =
      "watch=true&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(timeout_seconds);
  if (const auto* paging = std::get_if<Paging>(&step_)) {
    // From the server's cache ("0") pages are ignored; a continue token knows its version.
    std::string query = "limit=500";
    if (!paging->continue_token.empty()) return query + "&continue=" + paging->continue_token;
    if (!paging->resource_version.empty()) query += "&resourceVersion=" + paging->resource_version;
    return query;
  }
  if (const auto* watching = std::get_if<Watching>(&step_)) {
    return watch + "&resourceVersion=" + watching->resource_version;
  }
  return watch + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=" +
         last_version_;
}

void ReflectorState::on_page(const std::string& resource_version, const std::string& continue_token,
                             double now) {
  auto* paging = std::get_if<Paging>(&step_);
  if (paging == nullptr) return;
  if (!continue_token.empty()) {
    paging->continue_token = continue_token;
    return;
  }
  last_version_ = resource_version;
  synced_ = true;
  healthy_since_ = now;
  failures_ = 0;
  step_ = Watching{resource_version};
}

void ReflectorState::on_version(const std::string& resource_version) {
  if (resource_version.empty()) return;
  auto* watching = std::get_if<Watching>(&step_);
  if (watching == nullptr) return;
  watching->resource_version = last_version_ = resource_version;
}

void ReflectorState::on_initial_events_end(const std::string& resource_version, double now) {
  last_version_ = resource_version;
  synced_ = true;
  healthy_since_ = now;
  failures_ = 0;
  step_ = Watching{resource_version};
}

void ReflectorState::on_end(double seconds, std::int64_t events, double now) {
  if (std::holds_alternative<StreamingList>(step_)) {
    // It ended before its bookmark: this server, or what is between, cannot stream lists.
    can_stream_ = false;
    relist("0");
    return failed(now);
  }
  if (seconds < 1 && events == 0) return failed(now);
  if (now - healthy_since_ > health_seconds) failures_ = 0;
}

void ReflectorState::on_error(const ApiError& error, double now) {
  if (error.gone()) {
    relist("");
    // A single 410 is the course of things, several in a row are not.
    return failed(now);
  }
  failed(now);
  if (std::holds_alternative<StreamingList>(step_) && error.status >= 400 && error.status < 500 &&
      error.status != 429 && error.status != 401 && error.status != 403) {
    can_stream_ = false;
    return relist("0");
  }
  const bool keeps_version = error.status == 0 || error.status == 429 || error.status >= 500;
  if (std::holds_alternative<Watching>(step_) && !keeps_version) relist(last_version_);
}

void ReflectorState::relist(const std::string& resource_version) {
  if (can_stream_) {
    last_version_ = resource_version == "0" ? "" : resource_version;
    step_ = StreamingList{};
  } else {
    step_ = Paging{resource_version, ""};
  }
}

void ReflectorState::failed(double now) {
  if (failures_ > 0 && now - healthy_since_ > health_seconds && synced_) failures_ = 0;
  failures_ = std::min(failures_ + 1, 16);
  healthy_since_ = now;
}

}  // namespace muster::kube
