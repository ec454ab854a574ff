// TCP addresses of the form host:port (IPv4): resolved, listened on, dialled.
#pragma once

#include <string>

#include "common/result.h"

namespace muster {

struct TcpAddress {
  std::string ip;  // dotted
  int port = 0;
  std::string text() const { return ip + ":" + std::to_string(port); }
};

// Errors: Code::invalid_job when it is not host:port with a port of 0 to 65535; Code::io when the
// host is not known.
Result<TcpAddress> resolve_tcp(const std::string& address);

// A listening socket, non-blocking; `port` is what it got (0 asks for a free one). Errors:
// Code::port_in_use, Code::io, and those of resolve_tcp; each names the address and the remedy.
Result<int> listen_tcp(const std::string& address, int& port);

// A connected socket, blocking, without Nagle's delay. Errors: Code::io, and those of resolve_tcp.
Result<int> dial_tcp(const std::string& address);

}  // namespace muster
