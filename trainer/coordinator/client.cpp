#include "trainer/coordinator/client.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "common/exit_code.h"
#include "common/json_fields.h"
#include "common/tcp.h"
#include "trainer/coordinator/messages.h"
#include "trainer/coordinator/socket.h"
#include "trainer/protocol/boundary_gate.h"
#include "trainer/protocol/handshake.h"

namespace muster::coordinator {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Three within the shortest heartbeatTimeoutSeconds that a job may ask for.
constexpr std::chrono::milliseconds heartbeat_interval{200};
constexpr std::chrono::milliseconds leave_poll{100};

int milliseconds_until(Clock::time_point t) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(t - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
}

// The first of `messages`, waited for. Only before the client's thread runs.
Result<json> await_message(FrameSocket& socket, std::vector<json>& messages,
                           comm::Deadline deadline) {
  while (messages.empty()) {
    pollfd fd{socket.fd(), POLLIN, 0};
    if (::poll(&fd, 1, milliseconds_until(deadline)) == 0) {
      return Error{Code::deadline_exceeded, "the coordinator did not answer in time"};
    }
    const auto status = socket.receive(messages);
    if (!status.ok() && messages.empty()) {
      return status.error().while_doing(
          "registering with the coordinator (does this pod hold the job's token?)");
    }
  }
  auto first = std::move(messages.front());
  messages.erase(messages.begin());
  return first;
}

class Connection : public Client {
 public:
  Connection(int fd, std::function<void(const Error&)> on_abort)
      : socket_(fd),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        on_abort_(std::move(on_abort)) {}

  ~Connection() override {
    closing_ = true;
    wake();
    if (thread_.joinable()) thread_.join();
    ::close(wake_);
  }

  Status open(const std::string& token, const Hello& hello, comm::Deadline deadline) {
    MUSTER_TRY(challenge, await_message(socket_, early_, deadline));
    if (integer_field(challenge, "version") != protocol::protocol_version) {
      return Error{Code::protocol,
                   "the coordinator speaks another version of the protocol; use "
                   "programs of one release"};
    }
    const auto theirs = text_field(challenge, "nonce"), mine = protocol::make_nonce();
    socket_.queue({{"type", "proof"},
                   {"version", protocol::protocol_version},
                   {"nonce", mine},
                   {"proof", protocol::proof(token, "rank", theirs, mine)},
                   {"hello", to_json(hello)}});
    MUSTER_CHECK_OK(socket_.flush());
    MUSTER_TRY(welcome, await_message(socket_, early_, deadline));
    MUSTER_CHECK_OK(protocol::check_proof(welcome, token, "coordinator", theirs, mine));
    if (!welcome.contains("spec")) return Error{Code::protocol, "the coordinator sent no job"};
    spec_ = welcome["spec"];
    job_uid_ = text_field(welcome, "jobUid");
    thread_ = std::thread([this] { run(); });
    return {};
  }

  const json& spec() const override { return spec_; }
  const std::string& job_uid() const override { return job_uid_; }

  Result<Assignment> wait_assignment(comm::Deadline deadline,
                                     const std::atomic<bool>& leave) override {
    say({{"type", "ready"}});
    std::unique_lock lock(mutex_);
    while (!assignment_ && !over_ && Clock::now() < deadline) {
      const auto next = std::min<Clock::time_point>(deadline, Clock::now() + leave_poll);
      changed_.wait_until(lock, next, [this] { return assignment_ || over_; });
      if (!leave || assignment_ || over_) continue;
      lock.unlock();
      request_leave();
      lock.lock();
    }
    if (assignment_) return *std::exchange(assignment_, {});
    if (over_) return *over_;
    return Error{Code::deadline_exceeded, "the coordinator gave no rank in time"};
  }

  std::optional<int> sent_home() const override {
    const std::lock_guard lock(mutex_);
    return sent_home_;
  }

  Result<Boundary> boundary(std::int64_t step) override {
    std::unique_lock lock(mutex_);
    std::optional<json> passed;
    changed_.wait(lock, [&] {
      if (over_) return true;
      passed = gate_.pass(step);
      return passed.has_value();
    });
    if (over_) return *over_;
    if (passed->empty()) return Boundary{};
    return boundary_from_json(*passed);
  }

  void report(const Report& report) override {
    const std::lock_guard lock(mutex_);
    report_ = report;
    phase_since_ = Clock::now();
  }

  void set_phase(Phase phase) override {
    const std::lock_guard lock(mutex_);
    report_.phase = phase;
    phase_since_ = Clock::now();
  }

  void checkpoint_written(std::int64_t step, std::uint64_t n, const checkpoint::ShardRecord& shard,
                          const json& head) override {
    json message{{"type", "shard"},
                 {"step", step},
                 {"generation", n},
                 {"shard", checkpoint::to_json(shard)}};
    if (head.is_object()) message["head"] = head;
    say(message);
  }

  void checkpoint_failed(std::int64_t step, std::uint64_t n, const Error& error) override {
    say({{"type", "shard"}, {"step", step}, {"generation", n}, {"error", error.message}});
  }

  Status wait_published(std::int64_t step, comm::Deadline deadline) override {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return published_.contains(step) || over_; });
    if (const auto found = published_.find(step); found != published_.end()) return found->second;
    if (over_) return *over_;
    return Error{Code::deadline_exceeded, "the coordinator did not publish it in time"};
  }

  void request_leave() override {
    if (!leave_said_.exchange(true)) say({{"type", "leave"}});
  }

  Status finish(const json& result) override {
    auto message = last_word("finished");
    if (result.is_object() && !result.empty()) message["result"] = result;
    say(message);
    return drain(std::chrono::seconds(10));
  }

  Status left() override {
    say(last_word("left"));
    return drain(std::chrono::seconds(10));
  }

  void fail(const Error& error) override {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    say({{"type", "failed"}, {"code", static_cast<int>(error.code)}, {"message", error.message}});
    (void)drain(std::chrono::seconds(2));
  }

 private:
  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof(one));
  }

  void say(const json& message) {
    {
      const std::lock_guard lock(mutex_);
      outbox_.push_back(message);
    }
    wake();
  }

  // Waits until everything said is on its way.
  Status drain(Clock::duration limit) {
    std::unique_lock lock(mutex_);
    const bool sent =
        changed_.wait_for(lock, limit, [this] { return (outbox_.empty() && flushed_) || over_; });
    return sent ? Status()
                : Status(Error{Code::deadline_exceeded, "the coordinator does not take messages"});
  }

  void run() {
    auto next_heartbeat = Clock::now();
    while (!closing_) {
      if (Clock::now() >= next_heartbeat) {
        const std::lock_guard lock(mutex_);
        outbox_.push_back(heartbeat());
        next_heartbeat = Clock::now() + heartbeat_interval;
      }
      auto status = exchange();
      if (!status.ok()) return lost(status.error());
      short events = POLLIN;
      if (socket_.wants_to_write()) events |= POLLOUT;
      pollfd fds[] = {{socket_.fd(), events, 0}, {wake_, POLLIN, 0}};
      ::poll(fds, 2, milliseconds_until(next_heartbeat));
      std::uint64_t count;
      [[maybe_unused]] const auto n = ::read(wake_, &count, sizeof(count));
    }
  }

  // From here on the end of the connection is no news.
  json last_word(const char* type) {
    const std::lock_guard lock(mutex_);
    done_ = true;
    auto message = heartbeat();
    message["type"] = type;
    return message;
  }

  json heartbeat() const {
    auto report = report_;
    // What was passed decides where a change can happen, so it is what is told.
    report.step = std::max(report.step, gate_.passed());
    return to_json(report, std::chrono::duration<double>(Clock::now() - phase_since_).count());
  }

  Status exchange() {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& message : outbox_) socket_.queue(message);
      outbox_.clear();
      flushed_ = false;
    }
    auto messages = std::exchange(early_, {});
    const auto received = socket_.receive(messages);
    for (const auto& message : messages) MUSTER_CHECK_OK(handle(message));
    MUSTER_CHECK_OK(received);
    MUSTER_CHECK_OK(socket_.flush());
    const std::lock_guard lock(mutex_);
    flushed_ = !socket_.wants_to_write();
    changed_.notify_all();
    return {};
  }

  Status handle(const json& message) {
    const auto type = text_field(message, "type");
    const auto id = integer_field(message, "id");
    const std::lock_guard lock(mutex_);
    if (type == "assignment") {
      MUSTER_TRY(assignment, assignment_from_json(message));
      assignment_ = std::move(assignment);
    } else if (type == "proposal") {
      const bool accepted = gate_.propose(id, integer_field(message, "step"));
      outbox_.push_back(
          {{"type", "answer"}, {"id", id}, {"accepted", accepted}, {"step", gate_.passed()}});
      wake();
    } else if (type == "withdraw") {
      gate_.withdraw(id);
    } else if (type == "commit") {
      gate_.commit(id, message.contains("boundary") ? message["boundary"] : json::object());
    } else if (type == "published") {
      const auto error = text_field(message, "error");
      published_.emplace(integer_field(message, "step"),
                         error.empty() ? Status() : Status(Error{Code::io, error}));
    } else if (type == "over") {
      const bool stopped = message.contains("stopped") && message["stopped"] == true;
      sent_home_ = stopped ? exit_left : exit_finished;
      return Error{Code::aborted, "the run was over before this rank was needed"};
    } else if (type == "abort") {
      return aborted(message);
    }
    changed_.notify_all();
    return {};
  }

  static Error aborted(const json& message) {
    const auto code = integer_field(message, "code");
    const bool known = code >= 0 && code <= static_cast<int>(Code::internal);
    const auto words = text_field(message, "message");
    return {known ? static_cast<Code>(code) : Code::aborted,
            words.empty() ? "the attempt was ended" : words};
  }

  void lost(const Error& error) {
    bool expected = false;
    {
      const std::lock_guard lock(mutex_);
      over_ = error.code == Code::peer_lost && error.message == "the connection was closed"
                  ? Error{Code::peer_lost, "the coordinator closed the connection"}
                  : error;
      expected = done_;
      changed_.notify_all();
    }
    if (!expected && !closing_) on_abort_(*over_);
  }

  FrameSocket socket_;
  std::vector<json> early_;  // came with the answers to the registration
  const int wake_;
  const std::function<void(const Error&)> on_abort_;
  json spec_;
  std::string job_uid_;
  std::atomic<bool> closing_{false}, leave_said_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<json> outbox_;
  bool flushed_ = true;
  bool done_ = false;          // this rank has said its last word
  std::optional<Error> over_;  // the attempt is over for this rank, and why
  std::optional<int> sent_home_;
  std::optional<Assignment> assignment_;
  protocol::BoundaryGate gate_;
  std::map<std::int64_t, Status> published_;
  Report report_;
  Clock::time_point phase_since_ = Clock::now();
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Client>> Client::connect(const std::string& endpoint,
                                                const std::string& token, const Hello& hello,
                                                std::function<void(const Error&)> on_abort,
                                                comm::Deadline deadline) {
  auto fd = dial_tcp(endpoint);
  while (!fd.ok() && fd.error().code == Code::io && Clock::now() < deadline) {
    // Refused: the coordinator is on its way.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fd = dial_tcp(endpoint);
  }
  if (!fd.ok()) return fd.error().while_doing("connecting to the coordinator");
  auto connection = std::make_unique<Connection>(*fd, std::move(on_abort));
  MUSTER_CHECK_OK(connection->open(token, hello, deadline));
  return std::unique_ptr<Client>(std::move(connection));
}

}  // namespace muster::coordinator
