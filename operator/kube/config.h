// Where the API server is and who we are: from a kubeconfig, or from inside a pod.
//
//   MUSTER_TRY(config, kube::load_config({}));          // in a pod: its own; else kubectl's
//
// Kubeconfig: certificates and keys (files or data), token, tokenFile, username and password, exec
// plugins (client.authentication.k8s.io/v1 and v1beta1), tls-server-name, proxy-url, impersonation.
// The removed auth-provider is refused with the remedy.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"

namespace muster::kube {

// A program that prints credentials.
struct ExecPlugin {
  std::string command;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::string api_version;
  std::string install_hint;
  bool provide_cluster_info = false;
  std::string cluster_info;  // the JSON of `spec.cluster`, when asked for
};

// Either a file, read again for every connection, or PEM in memory; neither: none.
struct Pem {
  std::string file, data;
  bool empty() const { return file.empty() && data.empty(); }
  // Errors: Code::io.
  Result<std::string> read() const;
};

struct Config {
  std::string server;  // https://host:port
  std::string name_space = "default";
  std::string tls_server_name;  // the name that the certificate must have, when not the host
  std::string proxy_url;
  bool insecure = false;  // the certificate is not verified
  Pem authority;          // empty: the system's
  Pem client_certificate, client_key;
  std::string token, token_file;
  std::string username, password;
  std::optional<ExecPlugin> exec;
  std::map<std::string, std::vector<std::string>> impersonate;  // headers
};

struct ConfigSource {
  std::string kubeconfig = {};  // a path, or several separated by ':'; empty: in a pod its own,
                                // else $KUBECONFIG, else ~/.kube/config
  std::string context = {};     // empty: current-context
};

Result<Config> load_config(const ConfigSource& source);

// `texts`: contents of kubeconfigs and the folder that each one's relative paths start from; the
// first that defines a name wins, as with kubectl.
struct KubeconfigText {
  std::string text, folder, source;
};
Result<Config> parse_kubeconfig(const std::vector<KubeconfigText>& texts,
                                const std::string& context);

// `root`: where the pod's ServiceAccount is mounted. Errors: Code::not_found outside of a pod.
Result<Config> in_cluster_config(
    const std::string& root = "/var/run/secrets/kubernetes.io/serviceaccount");

}  // namespace muster::kube
