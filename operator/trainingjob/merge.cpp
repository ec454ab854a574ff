#include "operator/trainingjob/merge.h"

#include <algorithm>
#include <map>
#include <string>

namespace muster::trainingjob {
namespace {

using nlohmann::json;

// patchMergeKey of core/v1, for the lists that a pod template has.
const std::string* key_of_list(const std::string& list) {
  static const std::map<std::string, std::string> keys{{"containers", "name"},
                                                       {"initContainers", "name"},
                                                       {"volumes", "name"},
                                                       {"env", "name"},
                                                       {"volumeMounts", "mountPath"},
                                                       {"ports", "containerPort"},
                                                       {"imagePullSecrets", "name"},
                                                       {"hostAliases", "ip"},
                                                       {"topologySpreadConstraints", "topologyKey"},
                                                       {"resourceClaims", "name"}};
  const auto found = keys.find(list);
  return found == keys.end() ? nullptr : &found->second;
}

json merge_list(json base, const json& over, const std::string& key) {
  for (const auto& item : over) {
    const auto same = std::find_if(base.begin(), base.end(), [&](const json& candidate) {
      return candidate.is_object() && item.is_object() && candidate.contains(key) &&
             item.contains(key) && candidate[key] == item[key];
    });
    if (same == base.end()) {
      base.push_back(item);
    } else {
      // A variable has a value or a source of one.
      if (item.contains("value")) same->erase("valueFrom");
      if (item.contains("valueFrom")) same->erase("value");
      *same = strategic_merge(*same, item);
    }
  }
  return base;
}

}  // namespace

json strategic_merge(json base, const json& over) {
  if (!base.is_object() || !over.is_object()) return over;
  for (const auto& [name, value] : over.items()) {
    if (value.is_null()) {
      base.erase(name);
      continue;
    }
    const auto* key = key_of_list(name);
    const bool both_lists = base.contains(name) && base[name].is_array() && value.is_array();
    if (both_lists && name == "tolerations") {
      for (const auto& item : value) base[name].push_back(item);
    } else if (both_lists && key != nullptr) {
      base[name] = merge_list(base[name], value, *key);
    } else if (base.contains(name)) {
      base[name] = strategic_merge(base[name], value);
    } else {
      base[name] = value;
    }
  }
  return base;
}

}  // namespace muster::trainingjob
