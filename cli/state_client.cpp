#include "cli/state_client.h"

#include <curl/curl.h>

#include <memory>
#include <sstream>
#include <vector>

namespace muster::cli {
namespace {

constexpr std::size_t reply_limit = 4u << 20;

std::size_t append(char* data, std::size_t size, std::size_t count, void* to) {
  auto& text = *static_cast<std::string*>(to);
  if (text.size() + size * count > reply_limit) return 0;
  text.append(data, size * count);
  return size * count;
}

int port_of(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto digits = colon == std::string::npos ? text : text.substr(colon + 1);
  if (digits.empty() || digits.size() > 5 ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    return 0;
  }
  const int port = std::stoi(digits);
  return port <= 65535 ? port : 0;
}

int port_of(const nlohmann::json& value) {
  if (value.is_number_integer()) return port_of(std::to_string(value.get<std::int64_t>()));
  return value.is_string() ? port_of(value.get<std::string>()) : 0;
}

}  // namespace

Result<CoordinatorPorts> parse_port_file(const std::string& text) {
  CoordinatorPorts ports;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_object()) {
    if (json.contains("port")) ports.ranks = port_of(json["port"]);
    if (json.contains("http")) ports.http = port_of(json["http"]);
  } else {
    std::istringstream words(text);
    std::string ranks;
    std::string http;
    words >> ranks >> http;
    ports = {port_of(ranks), port_of(http)};
  }
  if (ports.ranks == 0) {
    return Error{Code::protocol, "the coordinator's port file does not name its port: " + text};
  }
  return ports;
}

Result<nlohmann::json> fetch_state(int port, const std::string& token) {
  const std::unique_ptr<CURL, decltype(&::curl_easy_cleanup)> curl(::curl_easy_init(),
                                                                   ::curl_easy_cleanup);
  if (!curl) return Error{Code::internal, "libcurl cannot be initialised"};
  const auto url = "http://127.0.0.1:" + std::to_string(port) + "/state";
  const auto authorization = "Authorization: Bearer " + token;
  const std::unique_ptr<curl_slist, decltype(&::curl_slist_free_all)> headers(
      ::curl_slist_append(nullptr, authorization.c_str()), ::curl_slist_free_all);
  std::string reply;
  ::curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  ::curl_easy_setopt(curl.get(), CURLOPT_PROXY, "");
  ::curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  ::curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, 1000L);
  ::curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
  ::curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, append);
  ::curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &reply);
  const auto code = ::curl_easy_perform(curl.get());
  if (code != CURLE_OK) return Error{Code::io, url + ": " + ::curl_easy_strerror(code)};
  auto state = nlohmann::json::parse(reply, nullptr, false);
  if (state.is_discarded()) return Error{Code::protocol, url + ": the reply is not JSON"};
  return state;
}

}  // namespace muster::cli
