#include "operator/kube/reflector.h"

#include <chrono>
#include <random>

#include "common/log.h"

namespace muster::kube {
namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double random_unit() {
  thread_local std::mt19937 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(engine);
}

std::string version_of(const json& object) {
  const auto metadata = object.find("metadata");
  return metadata != object.end() && metadata->is_object()
             ? text_field(*metadata, "resourceVersion")
             : "";
}

bool ends_initial_events(const json& bookmark) {
  const auto metadata = bookmark.find("metadata");
  if (metadata == bookmark.end() || !metadata->is_object()) return false;
  const auto annotations = metadata->find("annotations");
  return annotations != metadata->end() && annotations->is_object() &&
         text_field(*annotations, "k8s.io/initial-events-end") == "true";
}

// managedFields are a third of an object, and nobody here reads them.
json parse_event(std::string_view line) {
  return json::parse(
      line,
      [](int, json::parse_event_t event, json& value) {
        return event != json::parse_event_t::key || value != "managedFields";
      },
      false);
}

}  // namespace

std::string key_of(const json& object) {
  const auto& metadata = object.at("metadata");
  const auto space = text_field(metadata, "namespace");
  return space.empty() ? text_field(metadata, "name") : space + "/" + text_field(metadata, "name");
}

Reflector::Reflector(Client& client, ResourceType type, ReflectorOptions options,
                     ReflectorSink& sink)
    : client_(client), type_(std::move(type)), options_(std::move(options)), sink_(sink) {
  if (!options_.streaming) state_.on_error(ApiError({Code::protocol, ""}, 400), 0);
}

Reflector::~Reflector() {
  stop();
}

void Reflector::start() {
  thread_ = std::thread([this] { run(); });
}

void Reflector::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Reflector::wait(double seconds) {
  std::unique_lock lock(mutex_);
  if (seconds > 0) {
    stopped_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [this] { return stopping_.load(); });
  }
  return !stopping_;
}

void Reflector::run() {
  while (wait(state_.pause(random_unit()))) {
    if (std::holds_alternative<Paging>(state_.step())) {
      list_page();
    } else {
      watch();
    }
    synced_ = state_.synced();
  }
}

void Reflector::list_page() {
  const auto& paging = std::get<Paging>(state_.step());
  if (paging.continue_token.empty()) sink_.begin_replace();
  auto query = state_.query(0);
  if (!options_.label_selector.empty()) query += "&labelSelector=" + options_.label_selector;
  const auto page = client_.list(type_, options_.name_space, query);
  if (!page.ok()) {
    if (!stopping_) log::warning(page.error().message);
    return state_.on_error(page.error(), steady_seconds());
  }
  for (const auto& object : page->value("items", json::array())) sink_.put(object);
  const auto metadata = page->value("metadata", json::object());
  const auto token = text_field(metadata, "continue");
  if (token.empty()) sink_.end_replace();
  state_.on_page(text_field(metadata, "resourceVersion"), token, steady_seconds());
}

void Reflector::watch() {
  const bool listing = std::holds_alternative<StreamingList>(state_.step());
  if (listing) sink_.begin_replace();
  HttpRequest request;
  const int timeout = 300 + static_cast<int>(300 * random_unit());
  request.path = type_.path(options_.name_space) + "?" + state_.query(timeout);
  if (!options_.label_selector.empty()) request.path += "&labelSelector=" + options_.label_selector;
  const double begin = steady_seconds();
  std::int64_t events = 0;
  bool ended_by_us = false;
  const auto response = client_.transport().stream(
      request, options_.idle_seconds, [this, &events, &ended_by_us](std::string_view line) {
        const bool more = on_event(line, events) && !stopping_;
        ended_by_us = !more;
        return more;
      });
  const double now = steady_seconds();
  if (client_.metrics()) {
    client_.metrics()->request("WATCH", response.ok() ? response->status : 0, now - begin);
  }
  if (stopping_ || ended_by_us) return;
  const auto what = "watching " + type_.plural;
  if (!response.ok()) {
    // A quiet watch that is cut by our idle time is no failure: it goes on where it was.
    if (response.error().code == Code::deadline_exceeded && !listing) {
      return state_.on_end(now - begin, events, now);
    }
    log::warning(response.error().while_doing(what).message);
    return state_.on_error(ApiError(response.error()), now);
  }
  if (const auto error = error_of(*response, what)) {
    log::warning(error->message);
    return state_.on_error(*error, now);
  }
  state_.on_end(now - begin, events, now);
}

bool Reflector::on_event(std::string_view line, std::int64_t& events) {
  const auto event = parse_event(line);
  if (!event.is_object() || !event.contains("object") || !event["object"].is_object()) {
    state_.on_error(ApiError({Code::protocol, "an event that is no JSON"}, 500), steady_seconds());
    return false;
  }
  ++events;
  const auto type = text_field(event, "type");
  const auto& object = event["object"];
  if (type == "ERROR") {
    const HttpResponse as_response{
        static_cast<int>(integer_field(object, "code", 500)), object.dump(), {}};
    const auto error = error_of(as_response, "watching " + type_.plural);
    log::info(error ? error->message : "a watch ended");
    state_.on_error(error.value_or(ApiError{}), steady_seconds());
    return false;
  }
  if (type == "BOOKMARK") {
    if (ends_initial_events(object)) {
      sink_.end_replace();
      state_.on_initial_events_end(version_of(object), steady_seconds());
      synced_ = true;
    } else {
      state_.on_version(version_of(object));
    }
    return true;
  }
  if (type == "DELETED") {
    sink_.remove(object);
  } else {
    sink_.put(object);
  }
  state_.on_version(version_of(object));
  return true;
}

}  // namespace muster::kube
