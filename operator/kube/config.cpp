#include "operator/kube/config.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/file.h"
#include "common/json_fields.h"
#include "common/yaml.h"
#include "operator/kube/base64.h"

namespace muster::kube {
namespace {

using nlohmann::json;

Error wrong(const std::string& message) {
  return {Code::invalid_job, message};
}

// The value of the entry called `name` in a list of {name, <kind>}.
Result<json> named(const json& config, const char* list, const char* kind,
                   const std::string& name) {
  for (const auto& entry : config[list]) {
    if (text_field(entry, "name") == name && entry.contains(kind) && entry[kind].is_object()) {
      return entry[kind];
    }
  }
  return wrong("the kubeconfig has no " + std::string(kind) + " called \"" + name + "\"");
}

std::string absolute(const std::string& path, const std::string& folder) {
  if (path.empty() || path.front() == '/') return path;
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

Status read_pem(const json& from, const std::string& name, Pem& pem) {
  const auto encoded = text_field(from, (name + "-data").c_str());
  pem.file = encoded.empty() ? text_field(from, name.c_str()) : "";
  if (encoded.empty()) return {};
  const auto decoded = base64_decode(encoded);
  if (!decoded) return wrong(name + "-data in the kubeconfig is not base64");
  pem.data = *decoded;
  return {};
}

Status read_cluster(const json& cluster, Config& config) {
  config.server = text_field(cluster, "server");
  if (config.server.empty()) return wrong("the kubeconfig's cluster has no server");
  while (config.server.ends_with('/')) config.server.pop_back();
  config.tls_server_name = text_field(cluster, "tls-server-name");
  config.proxy_url = text_field(cluster, "proxy-url");
  config.insecure = cluster.value("insecure-skip-tls-verify", false);
  return read_pem(cluster, "certificate-authority", config.authority);
}

Result<ExecPlugin> read_exec(const json& exec, const json& cluster, const std::string& folder) {
  ExecPlugin plugin;
  plugin.command = text_field(exec, "command");
  plugin.api_version = text_field(exec, "apiVersion");
  plugin.install_hint = text_field(exec, "installHint");
  if (plugin.command.empty()) return wrong("the kubeconfig's exec plugin has no command");
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = absolute(plugin.command, folder);
  }
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    return wrong("the exec plugin's apiVersion is \"" + plugin.api_version +
                 "\"; client.authentication.k8s.io/v1 and v1beta1 are known");
  }
  if (exec.contains("args") && exec["args"].is_array()) {
    for (const auto& argument : exec["args"]) {
      if (argument.is_string()) plugin.arguments.push_back(argument);
    }
  }
  if (exec.contains("env") && exec["env"].is_array()) {
    for (const auto& variable : exec["env"]) {
      plugin.environment[text_field(variable, "name")] = text_field(variable, "value");
    }
  }
  plugin.provide_cluster_info = exec.value("provideClusterInfo", false);
  if (plugin.provide_cluster_info) {
    json info{{"server", text_field(cluster, "server")}};
    for (const char* name : {"certificate-authority-data", "tls-server-name", "proxy-url"}) {
      if (cluster.contains(name)) info[name] = cluster[name];
    }
    plugin.cluster_info = info.dump();
  }
  return plugin;
}

void read_impersonation(const json& user, Config& config) {
  if (const auto as = text_field(user, "as"); !as.empty()) {
    config.impersonate["Impersonate-User"] = {as};
  }
  if (const auto uid = text_field(user, "as-uid"); !uid.empty()) {
    config.impersonate["Impersonate-Uid"] = {uid};
  }
  if (user.contains("as-groups") && user["as-groups"].is_array()) {
    for (const auto& group : user["as-groups"]) {
      config.impersonate["Impersonate-Group"].push_back(group.get<std::string>());
    }
  }
}

Status read_user(const json& user, const json& cluster, const std::string& folder, Config& config) {
  if (user.contains("auth-provider")) {
    return wrong(
        "the kubeconfig's auth-provider was removed from Kubernetes in 1.26; let your "
        "cloud's tool write an exec plugin instead");
  }
  config.token = text_field(user, "token");
  config.token_file = text_field(user, "tokenFile");
  config.username = text_field(user, "username");
  config.password = text_field(user, "password");
  MUSTER_CHECK_OK(read_pem(user, "client-certificate", config.client_certificate));
  MUSTER_CHECK_OK(read_pem(user, "client-key", config.client_key));
  if (config.client_certificate.empty() != config.client_key.empty()) {
    return wrong("the kubeconfig's user has only one of client-certificate and client-key");
  }
  read_impersonation(user, config);
  if (user.contains("exec") && user["exec"].is_object()) {
    MUSTER_TRY(plugin, read_exec(user["exec"], cluster, folder));
    config.exec = std::move(plugin);
  }
  return {};
}

// Paths in a kubeconfig are relative to the file that they stand in.
void resolve_paths(json& config, const std::string& folder) {
  const auto resolve = [&](json& entry, const char* kind, std::vector<const char*> names) {
    if (!entry.contains(kind) || !entry[kind].is_object()) return;
    entry[kind]["#folder"] = folder;
    for (const char* name : names) {
      if (entry[kind].contains(name) && entry[kind][name].is_string()) {
        entry[kind][name] = absolute(entry[kind][name], folder);
      }
    }
  };
  for (auto& entry : config["clusters"]) resolve(entry, "cluster", {"certificate-authority"});
  for (auto& entry : config["users"]) {
    resolve(entry, "user", {"client-certificate", "client-key", "tokenFile"});
  }
}

Result<json> merged(const std::vector<KubeconfigText>& texts) {
  json all{{"clusters", json::array()}, {"users", json::array()}, {"contexts", json::array()}};
  for (const auto& [text, folder, source] : texts) {
    MUSTER_TRY(documents, parse_yaml(text, source));
    if (documents.empty()) continue;
    auto& one = documents[0];
    if (!one.is_object()) return wrong(source + " is not a kubeconfig");
    for (const char* list : {"clusters", "users", "contexts"}) {
      if (!one.contains(list) || !one[list].is_array()) one[list] = json::array();
    }
    resolve_paths(one, folder);
    for (const char* list : {"clusters", "users", "contexts"}) {
      for (auto& entry : one[list]) all[list].push_back(std::move(entry));
    }
    if (!all.contains("current-context") && !text_field(one, "current-context").empty()) {
      all["current-context"] = one["current-context"];
    }
  }
  return all;
}

std::vector<std::string> split_paths(const std::string& paths) {
  std::vector<std::string> result;
  std::istringstream in(paths);
  for (std::string path; std::getline(in, path, ':');) {
    if (!path.empty()) result.push_back(path);
  }
  return result;
}

}  // namespace

Result<std::string> Pem::read() const {
  if (file.empty()) return data;
  return read_file(file, 1u << 20);
}

Result<Config> parse_kubeconfig(const std::vector<KubeconfigText>& texts,
                                const std::string& context) {
  MUSTER_TRY(all, merged(texts));
  const auto name = context.empty() ? text_field(all, "current-context") : context;
  if (name.empty()) {
    return wrong("the kubeconfig has no current-context; choose one with --context");
  }
  MUSTER_TRY(chosen, named(all, "contexts", "context", name));
  MUSTER_TRY(cluster, named(all, "clusters", "cluster", text_field(chosen, "cluster")));
  Config config;
  MUSTER_CHECK_OK(read_cluster(cluster, config));
  if (const auto space = text_field(chosen, "namespace"); !space.empty()) {
    config.name_space = space;
  }
  const auto user_name = text_field(chosen, "user");
  if (user_name.empty()) return config;
  MUSTER_TRY(user, named(all, "users", "user", user_name));
  MUSTER_CHECK_OK(read_user(user, cluster, text_field(user, "#folder"), config));
  return config;
}

Result<Config> in_cluster_config(const std::string& root) {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr || !std::filesystem::exists(root + "/token")) {
    return Error{Code::not_found,
                 "this is no pod with a ServiceAccount (" + root + "); give --kubeconfig"};
  }
  Config config;
  // An IPv6 literal cannot be dialled by the HTTP library: the service's name can.
  const std::string name = host;
  config.server = name.find(':') == std::string::npos
                      ? "https://" + name + ":" + port
                      : "https://kubernetes.default.svc:" + std::string(port);
  config.authority.file = root + "/ca.crt";
  config.token_file = root + "/token";
  if (const auto space = read_file(root + "/namespace", 4096); space.ok()) {
    config.name_space = *space;
  }
  return config;
}

Result<Config> load_config(const ConfigSource& source) {
  auto paths = source.kubeconfig;
  if (paths.empty()) {
    if (auto pod = in_cluster_config(); pod.ok()) return pod;
    const char* set = std::getenv("KUBECONFIG");
    const char* home = std::getenv("HOME");
    paths = set != nullptr && *set != 0
                ? set
                : std::string(home == nullptr ? "" : home) + "/.kube/config";
  }
  std::vector<KubeconfigText> texts;
  for (const auto& path : split_paths(paths)) {
    const auto text = read_file(path, 1u << 20);
    // kubectl, too, passes over files of KUBECONFIG that are not there.
    if (!text.ok() && paths.find(':') != std::string::npos) continue;
    if (!text.ok()) return text.error().while_doing("reading the kubeconfig");
    texts.push_back({*text, std::filesystem::absolute(path).parent_path().string(), path});
  }
  if (texts.empty()) {
    return Error{Code::not_found, "no kubeconfig: " + paths + "; give --kubeconfig"};
  }
  return parse_kubeconfig(texts, source.context);
}

}  // namespace muster::kube
