// A whole controller on operator/kube: every ConfigMap labelled count=wanted gets the annotation
// `keys` with the number of its keys, and gets it back when somebody changes it.
//
//   example-controller ~/.kube/config NAMESPACE        ends on Ctrl-C
#include <signal.h>

#include <cstdio>

#include "operator/kube/controller.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/kube/reflector.h"

using namespace muster;  // NOLINT(google-build-using-namespace)

struct ConfigMap {
  std::string keys;  // the annotation
  std::size_t count = 0;
};

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: example-controller KUBECONFIG NAMESPACE\n"), 2;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  kube::start_http_threads(2);

  const auto config = kube::load_config({.kubeconfig = argv[1]});
  if (!config.ok()) return std::fprintf(stderr, "%s\n", config.error().message.c_str()), 1;
  const auto calls = *kube::make_cpprest_transport(*config),
             watches = *kube::make_cpprest_transport(*config);
  kube::Client client(*calls, {}), watcher(*watches, {});
  const kube::ResourceType config_maps{"", "v1", "configmaps"};
  const std::string space = argv[2];

  kube::Store<ConfigMap> store;
  kube::WorkQueue queue;
  kube::StoreSink<ConfigMap> sink(
      store, "",
      [](const kube::json& object) {
        const auto annotations = object["metadata"].value("annotations", kube::json::object());
        return std::make_shared<const ConfigMap>(ConfigMap{
            annotations.value("keys", ""), object.value("data", kube::json::object()).size()});
      },
      [&](const auto&, const auto& after) {
        if (after) queue.add("look");  // one key for all: there is little to do
      });
  kube::Reflector reflector(watcher, config_maps,
                            {.name_space = space, .label_selector = "count=wanted"}, sink);
  kube::Controller controller(
      queue, {.workers = 1}, [&](const std::string&) -> kube::ReconcileResult {
        for (const auto& key : store.keys()) {
          const auto map = store.get(key);
          const auto wanted = map ? std::to_string(map->count) : "";
          if (!map || map->keys == wanted) continue;
          const auto done =
              client.merge_patch(config_maps, space, key.substr(key.find('/') + 1),
                                 {{"metadata", {{"annotations", {{"keys", wanted}}}}}});
          if (!done.ok() && !done.error().not_found()) return {.error = done.error()};
        }
        return {};
      });
  reflector.start();
  controller.start();
  int signal = 0;
  sigwait(&signals, &signal);
  controller.stop(10);
  watches->cancel();
  reflector.stop();
}
