// What a reflector asks for next: an explicit state machine without sockets or threads.
//
// Mirrors client-go's tools/cache/reflector.go: a list (streamed where the server can, else in
// pages), then watches that go on where the last one ended. Only 410 leads to another list.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "operator/kube/error.h"

namespace muster::kube {

// Everything anew, by a stream that ends its list with a bookmark.
struct StreamingList {};
// Everything anew, page by page. The first page of version "0" comes from the server's cache.
struct Paging {
  std::string resource_version = "0";
  std::string continue_token;
};
// What changed since.
struct Watching {
  std::string resource_version;
};

class ReflectorState {
 public:
  using Step = std::variant<StreamingList, Paging, Watching>;

  const Step& step() const { return step_; }
  bool synced() const { return synced_; }
  // Seconds to wait before the next request: 0 while all is well. `jitter` in [0, 1).
  double pause(double jitter) const;

  // The query of the next request, without the selectors. `timeout_seconds`: of the watch.
  std::string query(int timeout_seconds) const;

  // A page came; an empty token: the last one.
  void on_page(const std::string& resource_version, const std::string& continue_token, double now);
  // An object, or a bookmark, of a watch.
  void on_version(const std::string& resource_version);
  // The bookmark that ends a streamed list.
  void on_initial_events_end(const std::string& resource_version, double now);
  // The stream ended by itself. `seconds` it lasted, `events` it brought.
  void on_end(double seconds, std::int64_t events, double now);
  // The request failed, or an ERROR event came.
  void on_error(const ApiError& error, double now);

 private:
  void relist(const std::string& resource_version);
  void failed(double now);

  Step step_ = StreamingList{};
  bool can_stream_ = true;
  bool synced_ = false;
  std::string last_version_;
  int failures_ = 0;
  double healthy_since_ = 0;
};

}  // namespace muster::kube
