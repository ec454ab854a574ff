// Typed calls to an API server.
//
//   Client client(transport, {}, metrics);
//   auto pod = client.create(pods, "default", body);        // ApiResult<json>
//   auto done = client.remove(pods, "default", "a", {.uid = uid, .grace_seconds = 0});
//
// Guarantees: a 429, or a 5xx with Retry-After, is tried again as the server asks, ten times at
// most; reads are tried again after a broken connection. A write whose connection broke is not: it
// may have been carried out, and the caller decides. Everything passes the rate limit, when there
// is one.
#pragma once

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "operator/kube/error.h"
#include "operator/kube/metrics.h"
#include "operator/kube/rate_limiter.h"
#include "operator/kube/transport.h"

namespace muster::kube {

using nlohmann::json;

struct ResourceType {
  std::string group;  // "" for the core group
  std::string version;
  std::string plural;
  // "/api/v1/namespaces/ns/pods/name/status"; an empty namespace: all of them.
  std::string path(const std::string& name_space, const std::string& name = "",
                   const std::string& subresource = "") const;
};

inline const ResourceType pods{"", "v1", "pods"};
inline const ResourceType services{"", "v1", "services"};
inline const ResourceType secrets{"", "v1", "secrets"};
inline const ResourceType network_policies{"networking.k8s.io", "v1", "networkpolicies"};
inline const ResourceType leases{"coordination.k8s.io", "v1", "leases"};
inline const ResourceType events{"events.k8s.io", "v1", "events"};

struct DeleteOptions {
  std::string uid = {};  // precondition: another object of that name stays
  std::optional<std::int64_t> grace_seconds = {};
  std::string propagation = "Background";
};

struct ClientOptions {
  double timeout_seconds = 15;
  double qps = 0;  // 0: no limit of our own, the server is fair by itself
  int burst = 10;
};

// Seconds to wait before trying once more, or nothing: the outcome stands. Pure.
std::optional<double> retry_delay(const std::string& method, const ApiError& error, int attempt);

// The error that a response means, from its Status object; nothing for a success.
std::optional<ApiError> error_of(const HttpResponse& response, const std::string& what);

class Client {
 public:
  Client(HttpTransport& transport, const ClientOptions& options, Metrics* metrics = nullptr);

  ApiResult<json> get(const ResourceType& type, const std::string& name_space,
                      const std::string& name);
  ApiResult<json> list(const ResourceType& type, const std::string& name_space,
                       const std::string& query = "");
  // `query`: such as dryRun=All&fieldValidation=Strict.
  ApiResult<json> create(const ResourceType& type, const std::string& name_space, const json& body,
                         const std::string& query = "");
  // PUT, with the resourceVersion that the body carries.
  ApiResult<json> update(const ResourceType& type, const std::string& name_space, const json& body,
                         const std::string& subresource = "");
  // Server-side apply with field manager `muster`, force.
  ApiResult<json> apply(const ResourceType& type, const std::string& name_space, const json& body);
  ApiResult<json> merge_patch(const ResourceType& type, const std::string& name_space,
                              const std::string& name, const json& patch,
                              const std::string& subresource = "");
  ApiResult<void> remove(const ResourceType& type, const std::string& name_space,
                         const std::string& name, const DeleteOptions& options = {});

  // Ends what waits for a retry or the rate limit.
  void stop();
  HttpTransport& transport() { return transport_; }
  Metrics* metrics() { return metrics_; }

 private:
  ApiResult<json> call(const HttpRequest& request, const std::string& what);
  ApiResult<json> once(const HttpRequest& request, const std::string& what);
  bool wait(double seconds);

  HttpTransport& transport_;
  const ClientOptions options_;
  Metrics* metrics_;
  RateLimiter limiter_;
  std::mutex mutex_;
  std::condition_variable stopped_changed_;
  bool stopped_ = false;
};

}  // namespace muster::kube
