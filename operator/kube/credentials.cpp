#include "operator/kube/credentials.h"

#include <chrono>
#include <limits>

#include "common/file.h"
#include "operator/kube/base64.h"

namespace muster::kube {
namespace {

constexpr double token_file_seconds = 60;     // how long a token from a file is used unread
constexpr double expiry_margin_seconds = 10;  // a plugin's token is renewed before its end

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.pop_back();
  }
  return text;
}

}  // namespace

Result<Credentials::Cached> Credentials::fresh() {
  Cached cached;
  cached.until = std::numeric_limits<double>::infinity();
  if (config_.exec) {
    MUSTER_TRY(credential, run_exec_plugin(*config_.exec));
    cached.token = credential.token;
    cached.certificate = credential.certificate;
    cached.key = credential.key;
    if (credential.expires_in) {
      cached.until = steady_seconds() + *credential.expires_in - expiry_margin_seconds;
    }
  } else if (!config_.token_file.empty()) {
    MUSTER_TRY(token, read_file(config_.token_file, 1u << 20));
    cached.token = trimmed(token);
    cached.until = steady_seconds() + token_file_seconds;
  } else {
    cached.token = config_.token;
  }
  return cached;
}

Result<Credentials::Cached> Credentials::current() {
  const std::lock_guard lock(mutex_);
  if (!cached_ || steady_seconds() >= cached_->until) {
    MUSTER_TRY(next, fresh());
    cached_ = std::move(next);
  }
  return *cached_;
}

void Credentials::refused() {
  const std::lock_guard lock(mutex_);
  cached_.reset();
}

Result<std::vector<std::pair<std::string, std::string>>> Credentials::headers() {
  MUSTER_TRY(now, current());
  std::vector<std::pair<std::string, std::string>> headers;
  if (!now.token.empty()) {
    headers.emplace_back("Authorization", "Bearer " + now.token);
  } else if (!config_.username.empty()) {
    headers.emplace_back("Authorization",
                         "Basic " + base64_encode(config_.username + ":" + config_.password));
  }
  for (const auto& [name, values] : config_.impersonate) {
    for (const auto& value : values) headers.emplace_back(name, value);
  }
  return headers;
}

Result<TlsMaterial> Credentials::tls() {
  TlsMaterial material;
  MUSTER_TRY(authority, config_.authority.read());
  MUSTER_TRY(certificate, config_.client_certificate.read());
  MUSTER_TRY(key, config_.client_key.read());
  material = {authority, certificate, key};
  if (config_.exec) {
    MUSTER_TRY(now, current());
    if (!now.certificate.empty()) {
      material.certificate = now.certificate;
      material.key = now.key;
    }
  }
  return material;
}

}  // namespace muster::kube
