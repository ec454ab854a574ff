#include "operator/kube/client.h"

#include <algorithm>
#include <chrono>

#include "common/json_fields.h"

namespace muster::kube {
namespace {

constexpr int most_retries = 10;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string with_query(std::string path, const std::string& query) {
  return query.empty() ? path : path + "?" + query;
}

}  // namespace

std::string ResourceType::path(const std::string& name_space, const std::string& name,
                               const std::string& subresource) const {
  auto text = group.empty() ? "/api/" + version : "/apis/" + group + "/" + version;
  if (!name_space.empty()) text += "/namespaces/" + name_space;
  text += "/" + plural;
  if (!name.empty()) text += "/" + name;
  if (!subresource.empty()) text += "/" + subresource;
  return text;
}

std::optional<double> retry_delay(const std::string& method, const ApiError& error, int attempt) {
  if (attempt >= most_retries || error.code == Code::aborted) return std::nullopt;
  if (error.status == 0) {
    if (method != "GET" || attempt >= 3) return std::nullopt;
    return 0.1 * (1 << attempt);
  }
  if (error.status == 429) return error.retry_after.value_or(1);
  if (error.status >= 500 && error.retry_after) return *error.retry_after;
  return std::nullopt;
}

std::optional<ApiError> error_of(const HttpResponse& response, const std::string& what) {
  if (response.status >= 200 && response.status < 300) return std::nullopt;
  ApiError error;
  error.code = response.status == 401 || response.status == 403 ? Code::unauthenticated
               : response.status == 404                         ? Code::not_found
                                                                : Code::protocol;
  error.status = response.status;
  error.retry_after = response.retry_after;
  const auto status = json::parse(response.body, nullptr, false);
  std::string words;
  if (status.is_object() && text_field(status, "kind") == "Status") {
    error.reason = text_field(status, "reason");
    words = text_field(status, "message");
    const auto details = status.find("details");
    if (!error.retry_after && details != status.end() && details->is_object() &&
        details->contains("retryAfterSeconds")) {
      error.retry_after = number_field(*details, "retryAfterSeconds", 1);
    }
  }
  if (words.empty()) words = response.body.substr(0, 200);
  error.message = what + ": " + (words.empty() ? "HTTP " + std::to_string(response.status) : words);
  return error;
}

Client::Client(HttpTransport& transport, const ClientOptions& options, Metrics* metrics)
    : transport_(transport),
      options_(options),
      metrics_(metrics),
      limiter_(options.qps, options.burst) {}

void Client::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  stopped_changed_.notify_all();
}

bool Client::wait(double seconds) {
  std::unique_lock lock(mutex_);
  if (seconds > 0) {
    stopped_changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                              [this] { return stopped_; });
  }
  return !stopped_;
}

ApiResult<json> Client::once(const HttpRequest& request, const std::string& what) {
  double pause = 0;
  {
    const std::lock_guard lock(mutex_);
    pause = limiter_.reserve(steady_seconds());
  }
  if (!wait(pause)) return ApiError(Error{Code::aborted, what + ": stopped"});
  const double begin = steady_seconds();
  auto response = transport_.send(request, options_.timeout_seconds);
  const int status = response.ok() ? response->status : 0;
  if (metrics_) metrics_->request(request.method, status, steady_seconds() - begin);
  if (!response.ok()) return ApiError(response.error().while_doing(what));
  if (auto error = error_of(*response, what)) return *error;
  auto body = json::parse(response->body, nullptr, false);
  if (body.is_discarded()) {
    return ApiError(Error{Code::protocol, what + ": the answer is no JSON"});
  }
  if (body.is_object() && body.contains("metadata") && body["metadata"].is_object()) {
    body["metadata"].erase("managedFields");
  }
  return body;
}

ApiResult<json> Client::call(const HttpRequest& request, const std::string& what) {
  for (int attempt = 0;; ++attempt) {
    auto result = once(request, what);
    if (result.ok()) return result;
    const auto delay = retry_delay(request.method, result.error(), attempt);
    if (!delay || !wait(*delay)) return result;
  }
}

ApiResult<json> Client::get(const ResourceType& type, const std::string& name_space,
                            const std::string& name) {
  const auto path = type.path(name_space, name);
  return call({"GET", path}, "GET " + path);
}

ApiResult<json> Client::list(const ResourceType& type, const std::string& name_space,
                             const std::string& query) {
  const auto path = type.path(name_space);
  return call({"GET", with_query(path, query)}, "LIST " + path);
}

ApiResult<json> Client::create(const ResourceType& type, const std::string& name_space,
                               const json& body, const std::string& query) {
  const auto path = type.path(name_space);
  const auto name = text_field(body.value("metadata", json::object()), "name");
  return call({"POST", with_query(path, query), body.dump(), "application/json"},
              "creating " + type.plural + " " + name);
}

ApiResult<json> Client::update(const ResourceType& type, const std::string& name_space,
                               const json& body, const std::string& subresource) {
  const auto name = text_field(body.value("metadata", json::object()), "name");
  const auto path = type.path(name_space, name, subresource);
  return call({"PUT", path, body.dump(), "application/json"}, "PUT " + path);
}

ApiResult<json> Client::apply(const ResourceType& type, const std::string& name_space,
                              const json& body) {
  const auto name = text_field(body.value("metadata", json::object()), "name");
  const auto path = type.path(name_space, name);
  return call({"PATCH", path + "?fieldManager=muster&force=true", body.dump(),
               "application/apply-patch+yaml"},
              "applying " + type.plural + " " + name);
}

ApiResult<json> Client::merge_patch(const ResourceType& type, const std::string& name_space,
                                    const std::string& name, const json& patch,
                                    const std::string& subresource) {
  const auto path = type.path(name_space, name, subresource);
  return call({"PATCH", path, patch.dump(), "application/merge-patch+json"}, "PATCH " + path);
}

ApiResult<void> Client::remove(const ResourceType& type, const std::string& name_space,
                               const std::string& name, const DeleteOptions& options) {
  json body{
      {"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"propagationPolicy", options.propagation}};
  if (!options.uid.empty()) body["preconditions"] = {{"uid", options.uid}};
  if (options.grace_seconds) body["gracePeriodSeconds"] = *options.grace_seconds;
  const auto path = type.path(name_space, name);
  auto result = call({"DELETE", path, body.dump(), "application/json"}, "DELETE " + path);
  if (!result.ok()) return result.error();
  return {};
}

}  // namespace muster::kube
