#include "operator/kube/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "operator/kube/credentials.h"
#include "operator/kube/time.h"
#include "tests/temporary_folder.h"

namespace muster::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A kubeconfig of one context whose user is this YAML.
std::string with_user(const std::string& user) {
  return R"(
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u, namespace: team}}]
clusters: [{name: k, cluster: {server: "https://k:6443", certificate-authority-data: Q0E=}}]
users: [{name: u, user: )" +
         user + "}]\n";
}

Result<Config> parse(const std::string& text, const std::string& context = "") {
  return parse_kubeconfig({{text, "/home/me/.kube", "config"}}, context);
}

TEST(Kubeconfig, Tokens) {
  const auto config = parse(with_user("{token: abc}"));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->server, "https://k:6443");
  EXPECT_EQ(config->name_space, "team");
  EXPECT_EQ(config->token, "abc");
  EXPECT_EQ(*config->authority.read(), "CA");
}

TEST(Kubeconfig, PathsAreRelativeToTheFile) {
  const auto config =
      parse(with_user("{tokenFile: token, client-certificate: a.crt, client-key: /b.key}"));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->token_file, "/home/me/.kube/token");
  EXPECT_EQ(config->client_certificate.file, "/home/me/.kube/a.crt");
  EXPECT_EQ(config->client_key.file, "/b.key");
}

TEST(Kubeconfig, CertificatesInTheFile) {
  const auto config =
      parse(with_user("{client-certificate-data: Q0VSVA==, client-key-data: S0VZ}"));
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(*config->client_certificate.read(), "CERT");
  EXPECT_EQ(*config->client_key.read(), "KEY");
}

TEST(Kubeconfig, BasicAndImpersonation) {
  const auto config = parse(with_user("{username: a, password: b, as: jane, as-groups: [x, y]}"));
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->username, "a");
  EXPECT_THAT(config->impersonate.at("Impersonate-User"), ElementsAre("jane"));
  EXPECT_THAT(config->impersonate.at("Impersonate-Group"), ElementsAre("x", "y"));
}

TEST(Kubeconfig, ExecPlugins) {
  const auto config = parse(with_user(
      "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./bin/login, args: [a, b], "
      "env: [{name: X, value: y}], provideClusterInfo: true}}"));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->exec->command, "/home/me/.kube/bin/login");
  EXPECT_THAT(config->exec->arguments, ElementsAre("a", "b"));
  EXPECT_EQ(config->exec->environment.at("X"), "y");
  EXPECT_THAT(config->exec->cluster_info, HasSubstr("https://k:6443"));
}

TEST(Kubeconfig, TheFirstFileThatDefinesANameWins) {
  const auto config = parse_kubeconfig(
      {{with_user("{token: first}"), "/a", "a"}, {with_user("{token: second}"), "/b", "b"}}, "");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->token, "first");
}

struct Bad {
  const char* text;
  const char* words;
};

TEST(Kubeconfig, WhatIsWrongIsToldInWords) {
  const std::string provider = with_user("{auth-provider: {name: gcp}}");
  const std::string half = with_user("{client-certificate-data: Q0VSVA==}");
  const std::string old =
      with_user("{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}}");
  const std::string none = with_user("{exec: {apiVersion: client.authentication.k8s.io/v1}}");
  for (const auto& [text, words] :
       {Bad{provider.c_str(), "exec plugin"}, Bad{half.c_str(), "only one of"},
        Bad{old.c_str(), "v1alpha1"}, Bad{none.c_str(), "has no command"},
        Bad{"[1]", "not a kubeconfig"}, Bad{"{}", "current-context"},
        Bad{"{current-context: gone}", "gone"}, Bad{"a: [", "config"}}) {
    const auto config = parse(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_THAT(config.error().message, HasSubstr(words));
  }
}

TEST(Kubeconfig, AContextThatIsNotThereIsNamed) {
  EXPECT_THAT(parse(with_user("{token: a}"), "prod").error().message, HasSubstr("prod"));
}

TEST(InCluster, OutsideOfAPodSaysWhatToDo) {
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_THAT(in_cluster_config("/nowhere").error().message, HasSubstr("--kubeconfig"));
}

TEST(InCluster, InAPod) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/token") << "abc";
  std::ofstream(folder.path() + "/namespace") << "team";
  ::setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  const auto config = in_cluster_config(folder.path());
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->server, "https://10.96.0.1:443");
  EXPECT_EQ(config->name_space, "team");
  EXPECT_EQ(config->token_file, folder.path() + "/token");
}

std::string authorization(Credentials& credentials) {
  const auto headers = credentials.headers();
  if (!headers.ok()) return headers.error().message;
  for (const auto& [name, value] : *headers) {
    if (name == "Authorization") return value;
  }
  return "";
}

TEST(Credentials, ATokenFileIsReadAgainWhenItWasRefused) {
  const TemporaryFolder folder;
  const auto file = folder.path() + "/token";
  std::ofstream(file) << "old\n";
  Config config;
  config.token_file = file;
  Credentials credentials(config);
  EXPECT_EQ(authorization(credentials), "Bearer old");
  std::ofstream(file) << "new\n";
  EXPECT_EQ(authorization(credentials), "Bearer old") << "kept for a minute";
  credentials.refused();
  EXPECT_EQ(authorization(credentials), "Bearer new");
}

TEST(Credentials, Basic) {
  Config config;
  config.username = "user";
  config.password = "pass";
  Credentials credentials(config);
  EXPECT_EQ(authorization(credentials), "Basic dXNlcjpwYXNz");
}

// A plugin that prints what the test wants; counts its runs in a file beside it.
class Plugin {
 public:
  explicit Plugin(const std::string& script) {
    std::ofstream(path()) << "#!/bin/sh\necho run >> " << folder_.path() << "/runs\n"
                          << script << "\n";
    ::chmod(path().c_str(), 0700);
  }
  std::string path() const { return folder_.path() + "/login"; }
  ExecPlugin plugin() const {
    ExecPlugin plugin;
    plugin.command = path();
    plugin.api_version = "client.authentication.k8s.io/v1";
    plugin.install_hint = "install login from example.org";
    return plugin;
  }
  int runs() const {
    std::ifstream in(folder_.path() + "/runs");
    int count = 0;
    for (std::string line; std::getline(in, line);) ++count;
    return count;
  }

 private:
  TemporaryFolder folder_;
};

std::string credential(const std::string& status) {
  return R"(echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": )" +
         status + "}'";
}

TEST(ExecPlugin, GivesATokenThatIsKept) {
  const Plugin plugin(credential(R"({"token": "abc"})"));
  Config config;
  config.exec = plugin.plugin();
  Credentials credentials(config);
  EXPECT_EQ(authorization(credentials), "Bearer abc");
  EXPECT_EQ(authorization(credentials), "Bearer abc");
  EXPECT_EQ(plugin.runs(), 1);
  credentials.refused();
  EXPECT_EQ(authorization(credentials), "Bearer abc");
  EXPECT_EQ(plugin.runs(), 2);
}

TEST(ExecPlugin, RunsAgainWhenTheTokenIsOver) {
  const Plugin plugin(
      credential(R"({"token": "abc", "expirationTimestamp": "2020-01-01T00:00:00Z"})"));
  Config config;
  config.exec = plugin.plugin();
  Credentials credentials(config);
  authorization(credentials);
  authorization(credentials);
  EXPECT_EQ(plugin.runs(), 2);
}

TEST(ExecPlugin, IsToldWhatItIsFor) {
  const Plugin plugin(
      R"(case "$KUBERNETES_EXEC_INFO" in *'"kind":"ExecCredential"'*) ;; *) exit 9 ;; esac
)" + credential(R"({"token": "told"})"));
  const auto got = run_exec_plugin(plugin.plugin());
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->token, "told");
}

TEST(ExecPlugin, ItsFailureIsToldWithTheHint) {
  const Plugin plugin("exit 3");
  const auto message = run_exec_plugin(plugin.plugin()).error().message;
  EXPECT_THAT(message, HasSubstr(plugin.path()));
  EXPECT_THAT(message, HasSubstr("exit code 3"));
  EXPECT_THAT(message, HasSubstr("install login from example.org"));
  ExecPlugin absent;
  absent.command = "/nowhere/login";
  EXPECT_THAT(run_exec_plugin(absent).error().message, HasSubstr("could not be started"));
}

TEST(ExecPlugin, WhatItPrintsIsChecked) {
  for (const char* printed :
       {"", "no json", "{}", R"({"kind": "ExecCredential"})",
        R"({"kind": "ExecCredential", "status": {}})",
        R"({"kind": "ExecCredential", "status": {"clientCertificateData": "x"}})"}) {
    EXPECT_FALSE(parse_exec_credential(printed, 0).ok()) << printed;
  }
  const auto good = parse_exec_credential(
      R"({"kind": "ExecCredential", "status": {"token": "t", "expirationTimestamp": "1970-01-01T00:01:40Z"}})",
      40);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good->expires_in, 60);
}

}  // namespace
}  // namespace muster::kube
