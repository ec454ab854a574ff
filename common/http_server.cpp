#include "common/http_server.h"

#include <civetweb.h>

#include <array>

namespace muster {

struct HttpServer::Impl {
  std::map<std::string, Handler> handlers;
  mg_context* context = nullptr;
  int port = 0;
};

namespace {

int answer(mg_connection* connection, void* data) {
  const auto& handler = *static_cast<const HttpServer::Handler*>(data);
  const auto* request = mg_get_request_info(connection);
  if (std::string_view(request->request_method) != "GET") {
    mg_send_http_error(connection, 405, "%s", "only GET is answered here");
    return 405;
  }
  const char* authorization = mg_get_header(connection, "Authorization");
  const HttpReply reply = handler(authorization ? authorization : "");
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

HttpServer::~HttpServer() {
  if (impl_->context) mg_stop(impl_->context);
}

int HttpServer::port() const {
  return impl_->port;
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& address,
                                                      std::map<std::string, Handler> handlers) {
  auto server = std::unique_ptr<HttpServer>(new HttpServer());
  server->impl_->handlers = std::move(handlers);
  mg_callbacks callbacks{};
  callbacks.log_message = drop_message;
  const char* options[] = {
      "listening_ports",  address.c_str(), "num_threads", "2", "request_timeout_ms", "5000",
      "max_request_size", "8192",          nullptr};
  server->impl_->context = mg_start(&callbacks, nullptr, options);
  if (!server->impl_->context) {
    return Error{Code::port_in_use, "cannot listen on " + address +
                                        ": the port is taken or the address is not of this "
                                        "machine; choose another one, or port 0 for a free one"};
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
