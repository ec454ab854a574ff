// Sockets around the Membership: one thread, one poll loop. Carries out its actions.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/http_server.h"
#include "common/result.h"
#include "trainer/coordinator/socket.h"
#include "trainer/protocol/membership.h"

namespace muster::coordinator {

struct ServerOptions {
  std::string listen = "127.0.0.1:0";
  std::string http;  // empty: no /state
  std::string token;
  std::string job_uid;
  std::string spec_hash;
  std::string checkpoint_folder;
  nlohmann::json spec;  // resolved, sent to the ranks
  protocol::Rules rules;
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> open(ServerOptions options);
  ~Server();

  int port() const { return port_; }
  int http_port() const { return http_ ? http_->port() : 0; }
  // Until the membership has ended, or `stop_now` was set. Signals are the caller's:
  // request_stop().
  void run();
  void request_stop();  // planned, at a boundary; safe in any thread
  void abandon();       // at once
  nlohmann::json state() const;
  // Of the program: 0 finished, 75 stopped, else the failure's.
  int exit_code() const;

 private:
  struct Peer {
    std::unique_ptr<FrameSocket> socket;
    std::string nonce;
    bool registered = false;
    double since = 0;
  };
  explicit Server(ServerOptions options);
  void accept_peer();
  void serve(protocol::MemberId id);
  Status handle(protocol::MemberId id, Peer& peer, const nlohmann::json& message);
  Status register_rank(protocol::MemberId id, Peer& peer, const nlohmann::json& message);
  void drop(protocol::MemberId id);
  void carry_out(const protocol::Membership::Actions& actions);
  Status publish(const nlohmann::json& what);
  std::string metrics() const;
  void poll_once();

  const ServerOptions options_;
  int listener_ = -1, wake_ = -1, port_ = 0;
  std::map<protocol::MemberId, Peer> peers_;
  protocol::MemberId next_id_ = 1;
  bool ended_ = false;
  std::atomic<bool> stop_requested_{false}, abandoned_{false};
  bool stop_passed_on_ = false;
  mutable std::mutex mutex_;  // of the membership: HTTP threads read it
  protocol::Membership membership_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace muster::coordinator
