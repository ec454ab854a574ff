#include "common/http_server.h"

#include <civetweb.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>

#include "common/log.h"
#include "common/tcp.h"

namespace muster {

struct HttpServer::Impl {
  std::map<std::string, Handler> handlers;
  mg_context* context = nullptr;
  std::string ip;
  int port = 0;
};

namespace {

// An exception must not leave a thread of the C library.
HttpReply reply_of(const HttpServer::Handler& handler, const std::string& authorization) {
  try {
    return handler(authorization);
  } catch (const std::exception& e) {
    log::error("an HTTP handler failed", {{"why", e.what()}});
    return {500, "text/plain; charset=utf-8", "internal error; the log says more\n"};
  }
}

int answer(mg_connection* connection, void* data) {
  const auto& handler = *static_cast<const HttpServer::Handler*>(data);
  const auto* request = mg_get_request_info(connection);
  if (std::string_view(request->request_method) != "GET") {
    mg_send_http_error(connection, 405, "%s", "only GET is answered here");
    return 405;
  }
  const char* authorization = mg_get_header(connection, "Authorization");
  const HttpReply reply = reply_of(handler, authorization ? authorization : "");
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            reply.status, mg_get_response_code_text(connection, reply.status),
            reply.content_type.c_str(), reply.body.size());
  mg_write(connection, reply.body.data(), reply.body.size());
  return reply.status;
}

// Quiet: the caller reports what failed.
int drop_message(const mg_connection*, const char*) {
  return 1;
}

}  // namespace

HttpServer::HttpServer() : impl_(std::make_unique<Impl>()) {}

// mg_stop waits for a poll of 2 s on the listening socket: a connection ends it.
HttpServer::~HttpServer() {
  if (!impl_->context) return;
  const auto stopped = std::async(std::launch::async, [this] { mg_stop(impl_->context); });
  const auto self =
      (impl_->ip == "0.0.0.0" ? "127.0.0.1" : impl_->ip) + ":" + std::to_string(impl_->port);
  do {
    if (const auto fd = dial_tcp(self); fd.ok()) ::close(*fd);
  } while (stopped.wait_for(std::chrono::milliseconds(2)) != std::future_status::ready);
}

int HttpServer::port() const {
  return impl_->port;
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& address,
                                                      std::map<std::string, Handler> handlers) {
  // civetweb does not say why it cannot listen, so it is tried before.
  int probed = 0;
  MUSTER_TRY(resolved, resolve_tcp(address));
  MUSTER_TRY(probe, listen_tcp(address, probed));
  ::close(probe);
  const auto listening = resolved.text();
  auto server = std::unique_ptr<HttpServer>(new HttpServer());
  server->impl_->ip = resolved.ip;
  server->impl_->handlers = std::move(handlers);
  mg_callbacks callbacks{};
  callbacks.log_message = drop_message;
  const char* options[] = {"listening_ports",
                           listening.c_str(),
                           "num_threads",
                           "2",
                           "request_timeout_ms",
                           "5000",
                           "max_request_size",
                           "8192",
                           nullptr};
  server->impl_->context = mg_start(&callbacks, nullptr, options);
  if (!server->impl_->context) {
    return Error{Code::io, "cannot serve HTTP on " + address};
  }
  std::array<mg_server_port, 1> ports{};
  if (mg_get_server_ports(server->impl_->context, 1, ports.data()) > 0) {
    server->impl_->port = ports[0].port;
  }
  for (auto& [path, handler] : server->impl_->handlers) {
    mg_set_request_handler(server->impl_->context, (path + "$").c_str(), answer, &handler);
  }
  return server;
}

}  // namespace muster
