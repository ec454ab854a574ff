// An API server of pods over a real socket, which fails as it is told to. It keeps objects with
// resource versions, lists, streams lists, watches and takes POST, PUT and DELETE; it checks
// nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace muster::kube {

class FakeApiServer {
 public:
  FakeApiServer();
  ~FakeApiServer();
  std::string address() const;  // http://127.0.0.1:port

  // The truth, changed from outside: watchers hear of it.
  void put(const std::string& name, int value);
  void erase(const std::string& name);
  // Objects of the truth: name -> value.
  std::map<std::string, int> objects() const;

  // What happens to the next requests, one each, before the truth is served again.
  enum class Fault {
    gone,           // 410
    too_many,       // 429, Retry-After: 0
    broken,         // 500
    cut_in_line,    // half a line of a watch, then the connection ends
    error_event,    // an ERROR event with 410 in a watch
    silence,        // headers, and then nothing until the client goes
    garbage,        // a body that is no JSON
    refuse_stream,  // 400 to a streamed list
    slow            // the answer comes byte by byte
  };
  void fail_watches(std::vector<Fault> faults);
  void fail_calls(std::vector<Fault> faults);

  int requests() const { return requests_; }

 private:
  struct Change {
    std::int64_t version;
    std::string type;
    nlohmann::json object;
  };
  void accept_all();
  void serve(int socket);
  bool answer(int socket, const std::string& method, const std::string& target,
              const std::string& body);
  void watch(int socket, std::int64_t from, bool initial);
  bool list(int socket);
  bool write(int socket, const std::string& method, const std::string& name,
             const std::string& body);
  bool faulty_call(int socket, Fault fault);
  void faulty_watch(int socket, Fault fault);
  void change(const std::string& type, const std::string& name, int value);

  int listener_ = -1, port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, nlohmann::json> truth_;
  std::vector<Change> log_;
  std::int64_t version_ = 1;
  std::deque<Fault> watch_faults_, call_faults_;
  bool stopping_ = false;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
  std::atomic<int> requests_{0};
};

}  // namespace muster::kube
