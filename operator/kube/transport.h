// How bytes reach an API server. One exchange, or a stream of lines; no knowledge of Kubernetes.
//
// The real one is CpprestTransport; tests use one of their own where a fault must be injected.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace muster::kube {

struct HttpRequest {
  std::string method = "GET";
  std::string path;  // with the query, percent-encoded
  std::string body = {};
  std::string content_type = {};
};

struct HttpResponse {
  int status = 0;
  std::string body;
  std::optional<double> retry_after;  // seconds, from the header
};

// Safe to call from several threads at once.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;

  // One exchange, over within `seconds`. Errors: Code::io (which host, why), deadline_exceeded,
  // aborted after cancel(). A POST that failed may have been carried out.
  virtual Result<HttpResponse> send(const HttpRequest& request, double seconds) = 0;

  // Reads the body line by line until it ends, `on_line` returns false, or nothing comes for
  // `idle_seconds` (Code::deadline_exceeded). With a status other than 200 the body is in the
  // response and no line is reported. A line longer than line_limit is Code::protocol.
  virtual Result<HttpResponse> stream(const HttpRequest& request, double idle_seconds,
                                      const std::function<bool(std::string_view)>& on_line) = 0;

  // Ends every call, present and future, with Code::aborted.
  virtual void cancel() = 0;

  static constexpr std::size_t line_limit = 16u << 20;
};

}  // namespace muster::kube
