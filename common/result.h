// Errors as values.
//
//   Result<int> parse(std::string_view text);
//   if (auto n = parse("7"); n.ok()) use(*n); else log(n.error().message);
//   MUSTER_TRY(text, read_file(path));      // returns the error, or declares `text`
//   MUSTER_CHECK_OK(write_file(path, text)); // returns the error of a Status
//
// A message names the object, the step that failed and the remedy, in one sentence for a person.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace muster {

// What kind of failure it is: decides the exit code (see exit_code.h) and whether a retry can help.
enum class Code {
  invalid_job,        // the TrainingJob is wrong
  invalid_data,       // the data are wrong
  diverged,           // the loss became non-finite
  unsupported,        // valid, but this version cannot do it
  io,                 // file system or socket; says which and why
  port_in_use,        //
  unauthenticated,    // the peer does not hold the key
  protocol,           // the peer sent what it must not
  stale_generation,   // a frame or peer of another generation
  peer_lost,          // a peer closed or died
  deadline_exceeded,  //
  aborted,            // abort() was called
  not_found,          //
  internal,           // a defect of ours
};

struct Error {
  Code code = Code::internal;
  std::string message;

  // The same error with what was being done put before it: "reading /x.csv: no such file".
  Error while_doing(const std::string& what) const { return {code, what + ": " + message}; }
};

// E: an Error that says more (operator/kube/error.h has one).
template <class T, class E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const E& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, E> state_;
};

template <class E>
class [[nodiscard]] Result<void, E> {
 public:
  Result() = default;
  Result(E error) : failed_(true), error_(std::move(error)) {}

  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const E& error() const { return error_; }

 private:
  bool failed_ = false;
  E error_;
};

using Status = Result<void>;

}  // namespace muster

#define MUSTER_CONCAT_(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_(a, b)
#define MUSTER_TRY_(tmp, name, ...)                   \
  auto tmp = (__VA_ARGS__);                           \
  if (!tmp.ok()) return ::muster::Error(tmp.error()); \
  auto name = *std::move(tmp)
#define MUSTER_TRY(name, ...) MUSTER_TRY_(MUSTER_CONCAT(muster_try_, __LINE__), name, __VA_ARGS__)
#define MUSTER_CHECK_OK(...)                                            \
  do {                                                                  \
    if (const auto& muster_status = (__VA_ARGS__); !muster_status.ok()) \
      return ::muster::Error(muster_status.error());                    \
  } while (0)
