#include "trainer/coordinator/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "common/exit_code.h"
#include "common/log.h"
#include "common/tcp.h"
#include "trainer/checkpoint/index.h"
#include "trainer/protocol/handshake.h"

namespace muster::coordinator {
namespace {

using nlohmann::json;
using protocol::MemberId;

constexpr int tick_milliseconds = 50;
constexpr double handshake_seconds = 10;
constexpr std::size_t peer_limit = 4096;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

prometheus::MetricFamily gauge(const char* name, const char* help, double value) {
  prometheus::MetricFamily family{name, help, prometheus::MetricType::Gauge, {}};
  family.metric.emplace_back();
  family.metric.back().gauge.value = value;
  return family;
}

}  // namespace

Server::Server(ServerOptions options)
    : options_(std::move(options)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      membership_(options_.rules) {}

Server::~Server() {
  http_.reset();
  if (listener_ >= 0) ::close(listener_);
  ::close(wake_);
}

Result<std::unique_ptr<Server>> Server::open(ServerOptions options) {
  auto server = std::unique_ptr<Server>(new Server(std::move(options)));
  auto* self = server.get();
  MUSTER_TRY(listener, listen_tcp(self->options_.listen, self->port_));
  self->listener_ = listener;
  if (self->options_.http.empty()) return server;
  MUSTER_TRY(http, HttpServer::start(
                       self->options_.http,
                       {{"/state",
                         [self](const std::string&) {
                           return HttpReply{200, "application/json", self->state().dump()};
                         }},
                        {"/metrics",
                         [self](const std::string&) {
                           return HttpReply{200, "text/plain; version=0.0.4", self->metrics()};
                         }},
                        {"/healthz", [](const std::string&) { return HttpReply{}; }}}));
  self->http_ = std::move(http);
  return server;
}

json Server::state() const {
  const std::lock_guard lock(mutex_);
  return membership_.state();
}

std::string Server::metrics() const {
  const auto state = this->state();
  const auto& progress = state["progress"];
  return prometheus::TextSerializer().Serialize(
      {gauge("muster_coordinator_generation", "Number of the membership.",
             state["generation"]["n"].get<double>()),
       gauge("muster_coordinator_world_size", "Ranks of the generation.",
             state["worldSize"].get<double>()),
       gauge("muster_coordinator_step", "Steps committed.", progress.value("step", 0.0)),
       gauge("muster_coordinator_samples", "Samples committed.", progress.value("samples", 0.0)),
       gauge("muster_coordinator_samples_per_second", "Speed over all ranks.",
             progress.value("samplesPerSecond", 0.0)),
       gauge("muster_coordinator_checkpoint_step", "Step of the last published checkpoint, or -1.",
             state.value("checkpointStep", -1.0))});
}

int Server::exit_code() const {
  const std::lock_guard lock(mutex_);
  if (membership_.phase() == protocol::Phase::succeeded) return exit_finished;
  if (const auto& failure = membership_.failure()) return muster::exit_code(*failure);
  return exit_left;
}

void Server::request_stop() {
  stop_requested_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof(one));
}

void Server::abandon() {
  abandoned_ = true;
  request_stop();
}

void Server::run() {
  while (!ended_ && !abandoned_) {
    poll_once();
    protocol::Membership::Actions actions;
    {
      const std::lock_guard lock(mutex_);
      if (stop_requested_ && !stop_passed_on_) {
        stop_passed_on_ = true;
        actions = membership_.stop_requested(now());
      }
      for (auto& a : membership_.tick(now())) actions.push_back(std::move(a));
    }
    carry_out(actions);
    std::vector<MemberId> silent;
    for (const auto& [id, peer] : peers_) {
      if (!peer.registered && now() - peer.since > handshake_seconds) silent.push_back(id);
    }
    for (const auto id : silent) drop(id);
  }
}

void Server::poll_once() {
  std::vector<pollfd> fds{{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
  std::vector<MemberId> ids;
  for (auto& [id, peer] : peers_) {
    short events = POLLIN;
    if (peer.socket->wants_to_write()) events |= POLLOUT;
    fds.push_back({peer.socket->fd(), events, 0});
    ids.push_back(id);
  }
  ::poll(fds.data(), fds.size(), tick_milliseconds);
  std::uint64_t count;
  [[maybe_unused]] const auto n = ::read(wake_, &count, sizeof(count));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (fds[i + 2].revents != 0) serve(ids[i]);
  }
  if (fds[0].revents != 0) accept_peer();
}

void Server::accept_peer() {
  const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  if (peers_.size() >= peer_limit) {
    ::close(fd);
    return;
  }
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  Peer peer{std::make_unique<FrameSocket>(fd), protocol::make_nonce(), false, now()};
  peer.socket->queue(
      {{"type", "challenge"}, {"version", protocol::protocol_version}, {"nonce", peer.nonce}});
  (void)peer.socket->flush();
  peers_.emplace(next_id_++, std::move(peer));
}

void Server::serve(MemberId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  std::vector<json> messages;
  auto status = found->second.socket->receive(messages);
  for (const auto& message : messages) {
    const auto again = peers_.find(id);
    if (again == peers_.end()) return;
    if (auto handled = handle(id, again->second, message); !handled.ok()) {
      log::warning(handled.error().message);
      return drop(id);
    }
  }
  const auto still = peers_.find(id);
  if (still == peers_.end()) return;
  if (status.ok()) status = still->second.socket->flush();
  if (!status.ok()) drop(id);
}

Status Server::handle(MemberId id, Peer& peer, const json& message) {
  if (!peer.registered) return register_rank(id, peer, message);
  protocol::Membership::Actions actions;
  {
    const std::lock_guard lock(mutex_);
    actions = membership_.received(id, message, now());
  }
  carry_out(actions);
  return {};
}

Status Server::register_rank(MemberId id, Peer& peer, const json& message) {
  const bool shaped = message.value("type", "") == "proof" && message.contains("nonce") &&
                      message["nonce"].is_string() && message.contains("hello") &&
                      message["hello"].is_object();
  if (!shaped) return Error{Code::protocol, "a connection that does not register"};
  const auto nonce = message["nonce"].get<std::string>();
  MUSTER_CHECK_OK(protocol::check_proof(message, options_.token, "rank", peer.nonce, nonce));
  peer.registered = true;
  peer.socket->queue({{"type", "welcome"},
                      {"proof", protocol::proof(options_.token, "coordinator", peer.nonce, nonce)},
                      {"jobUid", options_.job_uid},
                      {"spec", options_.spec}});
  MUSTER_CHECK_OK(peer.socket->flush());
  protocol::Membership::Actions actions;
  {
    const std::lock_guard lock(mutex_);
    actions = membership_.joined(id, message["hello"], now());
  }
  carry_out(actions);
  return {};
}

void Server::drop(MemberId id) {
  peers_.erase(id);
  protocol::Membership::Actions actions;
  {
    const std::lock_guard lock(mutex_);
    actions = membership_.disconnected(id, now());
  }
  carry_out(actions);
}

void Server::carry_out(const protocol::Membership::Actions& actions) {
  for (const auto& action : actions) {
    switch (action.kind) {
      case protocol::Action::send:
        if (const auto peer = peers_.find(action.to); peer != peers_.end()) {
          peer->second.socket->queue(action.message);
          (void)peer->second.socket->flush();
        }
        break;
      case protocol::Action::publish: {
        const auto step = action.message["step"].get<std::int64_t>();
        const auto status = publish(action.message);
        if (!status.ok()) log::error(status.error().message, {{"checkpoint", step}});
        protocol::Membership::Actions next;
        {
          const std::lock_guard lock(mutex_);
          next = membership_.published(step, status);
        }
        carry_out(next);
        break;
      }
      case protocol::Action::drop:
        peers_.erase(action.to);
        break;
      case protocol::Action::end:
        ended_ = true;
        break;
    }
  }
}

Status Server::publish(const json& what) {
  auto description = what["head"];
  description["shards"] = what["shards"];
  MUSTER_TRY(index, checkpoint::index_from_json(description));
  index.epoch = options_.rules.epoch;
  index.job_uid = options_.job_uid;
  index.spec_hash = options_.spec_hash;
  MUSTER_CHECK_OK(checkpoint::publish(options_.checkpoint_folder, index));
  log::info("published", {{"checkpoint", index.step}});
  return {};
}

}  // namespace muster::coordinator
