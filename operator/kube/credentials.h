// The Authorization header and client certificate of the moment: tokens from files are read again
// each minute, exec plugins run again when what they gave expires or is refused.
//
//   Credentials credentials(config);
//   MUSTER_TRY(headers, credentials.headers());
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/config.h"

namespace muster::kube {

struct TlsMaterial {
  std::string authority, certificate, key;  // PEM; empty: none
};

// Safe to call from several threads.
class Credentials {
 public:
  explicit Credentials(Config config) : config_(std::move(config)) {}

  // Headers of the next request. Errors: Code::io, unauthenticated (the plugin's own words).
  Result<std::vector<std::pair<std::string, std::string>>> headers();
  Result<TlsMaterial> tls();
  // The server said 401: what is cached is no longer good.
  void refused();

 private:
  struct Cached {
    std::string token, certificate, key;
    double until = 0;  // steady seconds
  };
  Result<Cached> current();
  Result<Cached> fresh();

  const Config config_;
  std::mutex mutex_;
  std::optional<Cached> cached_;
};

// What an exec plugin printed: an ExecCredential. `now`: seconds since 1970.
struct ExecCredential {
  std::string token, certificate, key;
  std::optional<double> expires_in;  // seconds from now
};
Result<ExecCredential> parse_exec_credential(const std::string& text, double now);

// Runs the plugin; its stderr is ours, so that it can tell the person what to do. Errors:
// Code::unauthenticated with the plugin's name, its end and its install hint.
Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin);

}  // namespace muster::kube
