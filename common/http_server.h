// A small HTTP/1.1 server for /metrics, /state, /healthz (civetweb): read-only, bounded requests.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/result.h"

namespace muster {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  // Path -> what GET answers; called on the server's threads. `authorization` is the header's
  // value, "" without one.
  using Handler = std::function<HttpReply(const std::string& authorization)>;
  // `address`: host:port; port 0 picks a free one. Errors: those of
  // listen_tcp (tcp.h). A handler that throws is answered with 500.
  static Result<std::unique_ptr<HttpServer>> start(const std::string& address,
                                                   std::map<std::string, Handler> handlers);
  ~HttpServer();
  int port() const;

 private:
  HttpServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
