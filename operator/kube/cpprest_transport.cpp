#include "operator/kube/cpprest_transport.h"

#include <arpa/inet.h>
#include <cpprest/http_client.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <pplx/threadpool.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/ssl.hpp>
#include <cstdlib>
#include <mutex>
#include <set>

#include "common/log.h"
#include "operator/kube/credentials.h"
#include "operator/kube/deadlines.h"

namespace muster::kube {
namespace {

using web::http::http_exception;
using web::http::http_request;
using web::http::http_response;
using web::http::client::http_client;
using web::http::client::http_client_config;
using BioHandle = std::unique_ptr<BIO, decltype(&::BIO_free)>;

// Only our own authority: what the library and OpenSSL trust by default is replaced.
bool use_authority(SSL_CTX* context, const std::string& pem) {
  X509_STORE* store = ::X509_STORE_new();
  const BioHandle bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), ::BIO_free);
  int count = 0;
  while (X509* certificate = ::PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    count += ::X509_STORE_add_cert(store, certificate);
    ::X509_free(certificate);
  }
  ::SSL_CTX_set_cert_store(context, store);
  return count > 0;
}

void prepare_tls(boost::asio::ssl::context& context, Credentials& credentials) {
  SSL_CTX* native = context.native_handle();
  ::SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  const auto material = credentials.tls();
  if (!material.ok()) {
    log::error(material.error().message);
    return;
  }
  if (!material->authority.empty() && !use_authority(native, material->authority)) {
    log::error("the cluster's certificate authority holds no certificate");
  }
  if (material->certificate.empty()) return;
  try {
    context.use_certificate_chain(boost::asio::buffer(material->certificate));
    context.use_private_key(boost::asio::buffer(material->key), boost::asio::ssl::context::pem);
  } catch (const std::exception& e) {
    log::error(std::string("the client certificate cannot be used: ") + e.what());
  }
}

bool is_ip(const std::string& host) {
  in_addr ignored;
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1;
}

Error describe(const http_exception& e, const std::string& server) {
  const auto code = e.error_code();
  if (code == std::errc::operation_canceled) return {Code::aborted, server + ": cancelled"};
  if (code == std::errc::timed_out) return {Code::deadline_exceeded, server + ": no answer"};
  return {Code::io, server + ": " + e.what()};
}

// The exchanges that are under way. Linked sources of the library would do, if they did not stay
// registered with the first one for ever.
class Exchanges {
 public:
  using Source = pplx::cancellation_token_source;
  class Entry {
   public:
    explicit Entry(Exchanges& all) : all_(all) {
      const std::lock_guard lock(all.mutex_);
      all.sources_.insert(this);
      if (all.cancelled_) source.cancel();
    }
    ~Entry() {
      const std::lock_guard lock(all_.mutex_);
      all_.sources_.erase(this);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    Source source;

   private:
    Exchanges& all_;
  };
  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (const auto* entry : sources_) entry->source.cancel();
  }
  bool cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

 private:
  mutable std::mutex mutex_;
  bool cancelled_ = false;
  std::set<const Entry*> sources_;
};

class CpprestTransport final : public HttpTransport {
 public:
  explicit CpprestTransport(const Config& config)
      : server_(config.server),
        tls_server_name_(config.tls_server_name),
        credentials_(config),
        config_(config) {
    if (config.insecure) {
      log::warning("the API server's certificate is not verified (insecure-skip-tls-verify)",
                   {{"server", server_}});
    }
    client_ = make_client(30);
  }

  Result<HttpResponse> send(const HttpRequest& request, double seconds) override {
    return with_fresh_credentials([&]() -> Result<HttpResponse> {
      Exchanges::Entry own(all_);
      std::atomic<bool> late{false};
      const auto deadline = deadlines_.add(seconds, [&late, &own] {
        late = true;
        own.source.cancel();
      });
      auto response = exchange(request, own.source.get_token());
      deadlines_.remove(deadline);
      if (!response.ok() && late) {
        return Error{Code::deadline_exceeded,
                     server_ + ": no answer in " + std::to_string(seconds) + " s"};
      }
      return response;
    });
  }

  Result<HttpResponse> stream(const HttpRequest& request, double idle_seconds,
                              const std::function<bool(std::string_view)>& on_line) override {
    return with_fresh_credentials([&]() -> Result<HttpResponse> {
      try {
        // A client of its own: a connection is held as long as the watch, and its idle time is its.
        const auto client = make_client(idle_seconds);
        MUSTER_TRY(message, prepare(request));
        // Ends the reading also when the caller wants no more.
        Exchanges::Entry own(all_);
        auto response = client->request(message, own.source.get_token()).get();
        auto result = head_of(response);
        if (result.status != 200) {
          result.body = response.extract_utf8string(true).get();
          return result;
        }
        MUSTER_TRY(whole, read_lines(response, on_line));
        if (!whole) own.source.cancel();
        return result;
      } catch (const http_exception& e) {
        return describe(e, server_);
      } catch (const std::exception& e) {
        return failed(e);
      }
    });
  }

  void cancel() override { all_.cancel(); }

 private:
  std::unique_ptr<http_client> make_client(double idle_seconds) {
    http_client_config settings;
    settings.set_timeout(std::chrono::milliseconds(static_cast<long>(idle_seconds * 1000)));
    settings.set_max_redirects(0);
    settings.set_validate_certificates(!config_.insecure);
    settings.set_ssl_context_callback(
        [this](boost::asio::ssl::context& context) { prepare_tls(context, credentials_); });
    // An IP literal is no server name; with tls-server-name the Host header says it.
    const web::uri address(server_);
    if (is_ip(address.host()) && tls_server_name_.empty()) {
      settings.set_tlsext_sni_enabled(false);
    }
    if (!config_.proxy_url.empty()) {
      settings.set_proxy(web::web_proxy(web::uri(config_.proxy_url)));
    }
    return std::make_unique<http_client>(address, settings);
  }

  template <class Call>
  Result<HttpResponse> with_fresh_credentials(const Call& call) {
    auto response = call();
    if (!response.ok() || response->status != 401) return response;
    credentials_.refused();
    return call();
  }

  Result<http_request> prepare(const HttpRequest& request) {
    http_request message(request.method);
    message.set_request_uri(web::uri(request.path));
    MUSTER_TRY(headers, credentials_.headers());
    for (const auto& [name, value] : headers) message.headers().add(name, value);
    message.headers().add("Accept", "application/json");
    message.headers().add("User-Agent", "muster");
    if (!tls_server_name_.empty()) message.headers().add("Host", tls_server_name_);
    if (!request.body.empty()) message.set_body(request.body, request.content_type);
    return message;
  }

  Result<HttpResponse> exchange(const HttpRequest& request, const pplx::cancellation_token& token) {
    try {
      MUSTER_TRY(message, prepare(request));
      auto response = client_->request(message, token).get();
      auto result = head_of(response);
      result.body = response.extract_utf8string(true).get();
      return result;
    } catch (const http_exception& e) {
      return describe(e, server_);
    } catch (const std::exception& e) {
      return failed(e);
    }
  }

  Error failed(const std::exception& e) const {
    if (all_.cancelled()) return {Code::aborted, server_ + ": cancelled"};
    return {Code::io, server_ + ": " + e.what()};
  }

  static HttpResponse head_of(const http_response& response) {
    HttpResponse head{response.status_code(), "", {}};
    const auto found = response.headers().find("Retry-After");
    if (found != response.headers().end()) {
      char* end = nullptr;
      const double seconds = std::strtod(found->second.c_str(), &end);
      if (end != found->second.c_str() && *end == 0 && seconds >= 0) head.retry_after = seconds;
    }
    return head;
  }

  // True at the body's end, false when the caller wanted no more.
  static Result<bool> read_lines(http_response& response,
                                 const std::function<bool(std::string_view)>& on_line) {
    auto buffer = response.body().streambuf();
    std::string pending;
    std::string chunk(64u << 10, '\0');
    while (buffer.getc().get() != std::char_traits<char>::eof()) {
      const auto count = buffer
                             .getn(reinterpret_cast<uint8_t*>(chunk.data()),
                                   std::clamp<std::size_t>(buffer.in_avail(), 1, chunk.size()))
                             .get();
      std::string_view rest(chunk.data(), count);
      for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
        pending.append(rest.substr(0, end));
        rest.remove_prefix(end + 1);
        if (!pending.empty() && !on_line(pending)) return false;
        pending.clear();
      }
      pending.append(rest);
      if (pending.size() > line_limit) return Error{Code::protocol, "a line beyond 16 MiB"};
    }
    return true;
  }

  const std::string server_, tls_server_name_;
  Credentials credentials_;
  const Config config_;
  Exchanges all_;
  Deadlines deadlines_;
  std::unique_ptr<http_client> client_;
};

}  // namespace

void start_http_threads(std::size_t threads) {
  crossplat::threadpool::initialize_with_threads(threads);
}

Result<std::unique_ptr<HttpTransport>> make_cpprest_transport(const Config& config) {
  try {
    return std::unique_ptr<HttpTransport>(std::make_unique<CpprestTransport>(config));
  } catch (const std::exception& e) {
    return Error{Code::invalid_job,
                 "the API server's address " + config.server + " cannot be used: " + e.what()};
  }
}

}  // namespace muster::kube
