// What an API call can fail with.
//
//   auto pod = client.create(pods, "default", body);
//   if (!pod.ok() && pod.error().reason == "AlreadyExists") ...
#pragma once

#include <optional>
#include <string>

#include "common/result.h"

namespace muster::kube {

// `status` is 0 when no answer came (Error::code says why: io, deadline_exceeded, aborted).
// Otherwise it is the HTTP status, and `reason` and `message` are those of the API's Status object:
// NotFound, AlreadyExists, Conflict, Gone, Expired, Invalid, Forbidden, TooManyRequests ...
struct ApiError : Error {
  ApiError() = default;
  explicit ApiError(Error error, int http_status = 0, std::string status_reason = "")
      : Error(std::move(error)), status(http_status), reason(std::move(status_reason)) {}

  int status = 0;
  std::string reason;
  std::optional<double> retry_after;  // seconds the server asks to wait

  bool not_found() const { return status == 404; }
  bool already_exists() const { return reason == "AlreadyExists"; }
  bool conflict() const { return reason == "Conflict"; }
  bool gone() const { return status == 410 || reason == "Expired" || reason == "Gone"; }
};

template <class T>
using ApiResult = Result<T, ApiError>;

}  // namespace muster::kube
