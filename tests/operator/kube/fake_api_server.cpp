#include "tests/operator/kube/fake_api_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace muster::kube {
namespace {

using nlohmann::json;

bool send_all(int socket, const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    const auto count = ::send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

bool reply(int socket, int status, const std::string& body, const std::string& header = "") {
  return send_all(socket, "HTTP/1.1 " + std::to_string(status) +
                              " X\r\nContent-Type: application/json\r\n" + header +
                              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

std::string status_body(int code, const std::string& reason) {
  return json{
      {"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", "as the test wants"}}
      .dump();
}

bool begin_stream(int socket) {
  return send_all(
      socket,
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
}

bool send_chunk(int socket, const std::string& text) {
  char size[32];
  std::snprintf(size, sizeof(size), "%zx\r\n", text.size());
  return send_all(socket, size + text + "\r\n");
}

bool send_event(int socket, const std::string& type, const json& object) {
  return send_chunk(socket, json{{"type", type}, {"object", object}}.dump() + "\n");
}

std::string parameter(const std::string& target, const std::string& name) {
  for (const char* before : {"?", "&"}) {
    const auto at = target.find(before + name + "=");
    if (at == std::string::npos) continue;
    const auto begin = at + name.size() + 2;
    return target.substr(begin, target.find('&', begin) - begin);
  }
  return "";
}

}  // namespace

FakeApiServer::FakeApiServer() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  ::listen(listener_, 64);
  socklen_t size = sizeof(address);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

FakeApiServer::~FakeApiServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
  }
  changed_.notify_all();
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  for (auto& thread : threads_) thread.join();
  for (const int socket : sockets_) ::close(socket);
}

std::string FakeApiServer::address() const {
  return "http://127.0.0.1:" + std::to_string(port_);
}

void FakeApiServer::change(const std::string& type, const std::string& name, int value) {
  ++version_;
  json object{
      {"kind", "Pod"},
      {"metadata",
       {{"namespace", "default"}, {"name", name}, {"resourceVersion", std::to_string(version_)}}},
      {"value", value}};
  if (type == "DELETED") {
    truth_.erase(name);
  } else {
    truth_[name] = object;
  }
  log_.push_back({version_, type, object});
  changed_.notify_all();
}

void FakeApiServer::put(const std::string& name, int value) {
  const std::lock_guard lock(mutex_);
  change(truth_.contains(name) ? "MODIFIED" : "ADDED", name, value);
}

void FakeApiServer::erase(const std::string& name) {
  const std::lock_guard lock(mutex_);
  change("DELETED", name, 0);
}

std::map<std::string, int> FakeApiServer::objects() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int> result;
  for (const auto& [name, object] : truth_) result[name] = object["value"];
  return result;
}

void FakeApiServer::fail_watches(std::vector<Fault> faults) {
  const std::lock_guard lock(mutex_);
  watch_faults_.assign(faults.begin(), faults.end());
}

void FakeApiServer::fail_calls(std::vector<Fault> faults) {
  const std::lock_guard lock(mutex_);
  call_faults_.assign(faults.begin(), faults.end());
}

void FakeApiServer::accept_all() {
  while (true) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (stopping_ || socket < 0) {
      if (socket >= 0) ::close(socket);
      return;
    }
    sockets_.push_back(socket);
    threads_.emplace_back([this, socket] {
      serve(socket);
      ::shutdown(socket, SHUT_RDWR);
    });
  }
}

// One request after another, until the connection ends.
void FakeApiServer::serve(int socket) {
  std::string buffer;
  char bytes[4096];
  while (true) {
    std::size_t head = 0;
    while ((head = buffer.find("\r\n\r\n")) == std::string::npos) {
      const auto count = ::recv(socket, bytes, sizeof(bytes), 0);
      if (count <= 0) return;
      buffer.append(bytes, static_cast<std::size_t>(count));
    }
    auto headers = buffer.substr(0, head);
    std::size_t length = 0;
    auto lower = headers;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (const auto at = lower.find("content-length:"); at != std::string::npos) {
      length = std::stoul(lower.substr(at + 15));
    }
    while (buffer.size() < head + 4 + length) {
      const auto count = ::recv(socket, bytes, sizeof(bytes), 0);
      if (count <= 0) return;
      buffer.append(bytes, static_cast<std::size_t>(count));
    }
    const auto body = buffer.substr(head + 4, length);
    buffer.erase(0, head + 4 + length);
    const auto space = headers.find(' ');
    const auto target = headers.substr(space + 1, headers.find(' ', space + 1) - space - 1);
    ++requests_;
    if (!answer(socket, headers.substr(0, space), target, body)) return;
  }
}

bool FakeApiServer::answer(int socket, const std::string& method, const std::string& target,
                           const std::string& body) {
  const bool watching = parameter(target, "watch") == "true";
  std::unique_lock lock(mutex_);
  auto& faults = watching ? watch_faults_ : call_faults_;
  if (!faults.empty()) {
    const auto fault = faults.front();
    faults.pop_front();
    lock.unlock();
    if (!watching) return faulty_call(socket, fault);
    faulty_watch(socket, fault);
    return false;
  }
  lock.unlock();
  if (watching) {
    const auto version = parameter(target, "resourceVersion");
    watch(socket, version.empty() ? 0 : std::stoll(version),
          parameter(target, "sendInitialEvents") == "true");
    return false;
  }
  if (method == "GET") return list(socket);
  const auto slash = target.rfind('/');
  return write(socket, method, target.substr(slash + 1), body);
}

bool FakeApiServer::list(int socket) {
  const std::lock_guard lock(mutex_);
  json items = json::array();
  for (const auto& [name, object] : truth_) items.push_back(object);
  return reply(socket, 200,
               json{{"kind", "PodList"},
                    {"metadata", {{"resourceVersion", std::to_string(version_)}}},
                    {"items", items}}
                   .dump());
}

bool FakeApiServer::write(int socket, const std::string& method, const std::string& name,
                          const std::string& body) {
  const std::lock_guard lock(mutex_);
  const auto object = json::parse(body, nullptr, false);
  if (method == "POST") {
    const auto created = object["metadata"]["name"].get<std::string>();
    if (truth_.contains(created)) return reply(socket, 409, status_body(409, "AlreadyExists"));
    change("ADDED", created, object.value("value", 0));
    return reply(socket, 201, truth_[created].dump());
  }
  if (!truth_.contains(name)) return reply(socket, 404, status_body(404, "NotFound"));
  if (method == "PUT") {
    if (object["metadata"]["resourceVersion"] != truth_[name]["metadata"]["resourceVersion"]) {
      return reply(socket, 409, status_body(409, "Conflict"));
    }
    change("MODIFIED", name, object.value("value", 0));
    return reply(socket, 200, truth_[name].dump());
  }
  change("DELETED", name, 0);
  return reply(socket, 200, "{}");
}

void FakeApiServer::watch(int socket, std::int64_t from, bool initial) {
  if (!begin_stream(socket)) return;
  std::unique_lock lock(mutex_);
  if (initial) {
    for (const auto& [name, object] : truth_) {
      if (!send_event(socket, "ADDED", object)) return;
    }
    from = version_;
    const json mark{{"metadata",
                     {{"resourceVersion", std::to_string(version_)},
                      {"annotations", {{"k8s.io/initial-events-end", "true"}}}}}};
    if (!send_event(socket, "BOOKMARK", mark)) return;
  }
  std::size_t next = 0;
  while (!stopping_) {
    for (; next < log_.size(); ++next) {
      if (log_[next].version <= from) continue;
      if (!send_event(socket, log_[next].type, log_[next].object)) return;
    }
    changed_.wait(lock, [&] { return stopping_ || next < log_.size(); });
  }
}

bool FakeApiServer::faulty_call(int socket, Fault fault) {
  switch (fault) {
    case Fault::gone:
      return reply(socket, 410, status_body(410, "Expired"));
    case Fault::too_many:
      return reply(socket, 429, status_body(429, "TooManyRequests"), "Retry-After: 0\r\n");
    case Fault::garbage:
      return reply(socket, 200, "<html>no JSON</html>");
    case Fault::cut_in_line:
      send_all(socket, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"kind\":");
      return false;
    case Fault::slow: {
      const std::string body =
          R"({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []})";
      send_all(socket,
               "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
      for (const char c : body) send_all(socket, std::string(1, c));
      return true;
    }
    default:
      return reply(socket, 500, status_body(500, "InternalError"));
  }
}

void FakeApiServer::faulty_watch(int socket, Fault fault) {
  switch (fault) {
    case Fault::gone:
      reply(socket, 410, status_body(410, "Expired"));
      return;
    case Fault::too_many:
      reply(socket, 429, status_body(429, "TooManyRequests"), "Retry-After: 0\r\n");
      return;
    case Fault::refuse_stream:
      reply(socket, 400, status_body(400, "BadRequest"));
      return;
    case Fault::cut_in_line:
      begin_stream(socket);
      send_all(socket, "200\r\n{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"ha");
      return;
    case Fault::garbage:
      begin_stream(socket);
      send_chunk(socket, "no JSON at all\n");
      return;
    case Fault::error_event:
      begin_stream(socket);
      send_event(socket, "ERROR", json::parse(status_body(410, "Expired")));
      return;
    case Fault::silence: {
      begin_stream(socket);
      char byte = 0;
      while (::recv(socket, &byte, 1, 0) > 0) {
      }
      return;
    }
    default:
      reply(socket, 500, status_body(500, "InternalError"));
  }
}

}  // namespace muster::kube
