#include <algorithm>
#include <cctype>

#include "common/crypto.h"
#include "common/job/convert.h"
#include "common/job/job.h"
#include "common/job/schema.h"
#include "common/yaml.h"

namespace muster::job {
namespace {

using nlohmann::json;

// The rules between fields. `found` collects what is wrong.
class Rules {
 public:
  Rules(const TrainingJob& job, std::vector<Problem>& found)
      : job_(job), spec_(job.spec), found_(found) {}

  void check() {
    name();
    model();
    data();
    training();
    workers();
    failure_rules();
  }

 private:
  void wrong(const std::string& path, const std::string& message) {
    found_.push_back({path, message});
  }

  static bool label(const std::string& text, std::size_t limit) {
    const auto fits = [](unsigned char c) {
      return std::islower(c) || std::isdigit(c) || c == '-';
    };
    return !text.empty() && text.size() <= limit && text.front() != '-' && text.back() != '-' &&
           std::all_of(text.begin(), text.end(), fits);
  }

  void name() {
    const auto& n = job_.name;
    if (!label(job_.name_space, 63)) {
      wrong("metadata.namespace",
            "must be at most 63 characters of a-z, 0-9 and -, and not start or end with -, but is "
            "\"" +
                job_.name_space + "\"");
    }
    if (label(n, 45) && std::islower(static_cast<unsigned char>(n[0]))) return;
    wrong("metadata.name",
          "must be at most 45 characters of a-z, 0-9 and -, start with a letter "
          "and not end with -, but is \"" +
              n + "\"");
  }

  void model() {
    const auto& m = spec_.model;
    const int count = m.tabular.has_value() + m.builtin.has_value() + m.hugging_face.has_value() +
                      m.plugin.has_value() + m.external.has_value();
    if (count != 1) {
      wrong("spec.model",
            "must have exactly one of tabular, builtin, huggingFace, plugin and "
            "external, but has " +
                std::to_string(count) + "; for a CSV write tabular: {}");
    }
    const bool language = m.builtin && (m.builtin->name == "gpt2" || m.builtin->name == "llama");
    if (language && spec_.data.format == "csv") {
      wrong("spec.data.format", "is csv, but " + m.builtin->name + " reads text, tokens or jsonl");
    }
    if (m.tabular && spec_.data.format != "csv" && spec_.data.format != "parquet") {
      wrong("spec.data.format",
            "is " + spec_.data.format + ", but model.tabular reads csv or parquet");
    }
    const auto* config = m.builtin ? builtin_config(m.builtin->name) : nullptr;
    if (config != nullptr) {
      auto copy = m.builtin->config;
      job::check(*config, copy, "spec.model.builtin.config", found_);
    }
  }

  void data() {
    if (spec_.data.token_bits != 16 && spec_.data.token_bits != 32) {
      wrong("spec.data.tokenBits",
            "must be 16 or 32, but is " + std::to_string(spec_.data.token_bits));
    }
    if (!spec_.data.validation.empty() && spec_.data.validation_fraction > 0) {
      wrong("spec.data.validationFraction",
            "and spec.data.validation exclude each other; keep one");
    }
  }

  void training() {
    const auto& t = spec_.training;
    if (t.epochs.has_value() == t.steps.has_value()) {
      wrong("spec.training", std::string("must have exactly one of epochs and steps, but has ") +
                                 (t.epochs ? "both" : "neither") + "; for example epochs: 10");
    }
    if (t.global_batch_size && t.per_worker_batch_size) {
      wrong("spec.training.perWorkerBatchSize", "and globalBatchSize exclude each other; keep one");
    }
    const auto& betas = t.optimizer.betas;
    const auto inside = [](double b) { return b >= 0 && b < 1; };
    if (betas.size() != 2 || !std::all_of(betas.begin(), betas.end(), inside)) {
      wrong("spec.training.optimizer.betas", "must be two numbers in [0, 1), such as [0.9, 0.999]");
    }
    const bool validates = spec_.data.validation_fraction > 0 || !spec_.data.validation.empty();
    if (validates) return;
    const char* needs = "needs validation data; set spec.data.validation or validationFraction";
    if (t.early_stopping) wrong("spec.training.earlyStopping", needs);
    if (t.schedule.type == "plateau")
      wrong("spec.training.schedule.type", std::string("plateau ") + needs);
    if (!spec_.checkpoint.keep_best.empty()) wrong("spec.checkpoint.keepBest", needs);
  }

  void workers() {
    const bool served =
        spec_.strategy.type == StrategyType::async || spec_.strategy.type == StrategyType::hybrid;
    if (spec_.servers.replicas > 0 && !served) {
      wrong("spec.servers.replicas", "must be 0 unless strategy.type is async or hybrid");
    }
    if (!spec_.elastic_policy) return;
    const auto& e = *spec_.elastic_policy;
    if (e.min_replicas > e.max_replicas) {
      wrong("spec.elasticPolicy.minReplicas", "must be at most maxReplicas (" +
                                                  std::to_string(e.max_replicas) + "), but is " +
                                                  std::to_string(e.min_replicas));
    } else if (e.min_replicas > spec_.workers.replicas || spec_.workers.replicas > e.max_replicas) {
      wrong("spec.workers.replicas", "must lie between elasticPolicy.minReplicas (" +
                                         std::to_string(e.min_replicas) + ") and maxReplicas (" +
                                         std::to_string(e.max_replicas) + "), but is " +
                                         std::to_string(spec_.workers.replicas));
    }
  }

  void failure_rules() {
    for (std::size_t i = 0; i < spec_.failure_rules.size(); ++i) {
      const auto& rule = spec_.failure_rules[i];
      if (!rule.on_exit_codes.empty() || !rule.on_reasons.empty()) continue;
      wrong("spec.failurePolicy.rules[" + std::to_string(i) + "]",
            "matches nothing; give it onExitCodes or onReasons");
    }
  }

  const TrainingJob& job_;
  const Spec& spec_;
  std::vector<Problem>& found_;
};

// "a.b[2].c" to a JSON pointer path.
Result<std::vector<std::string>> path_parts(const std::string& path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.' || c == '[') {
      parts.emplace_back();
    } else if (c != ']') {
      parts.back() += c;
    }
  }
  if (std::any_of(parts.begin(), parts.end(), [](auto& p) { return p.empty(); })) {
    return Error{Code::invalid_job, "'" + path + "' is not a path such as training.steps"};
  }
  return parts;
}

// Removes what the parts lead to; nothing when it is not there.
Status remove_path(json& document, const std::vector<std::string>& parts) {
  json* at = &document;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!at->is_object() || !at->contains(parts[i])) return {};
    at = &(*at)[parts[i]];
  }
  if (at->is_object()) at->erase(parts.back());
  return {};
}

}  // namespace

Result<std::vector<json>> read_documents(const std::string& text, const std::string& source) {
  MUSTER_TRY(documents, parse_yaml(text, source));
  if (documents.empty()) return Error{Code::invalid_job, source + " has no TrainingJob in it"};
  return documents;
}

Parsed parse(const json& document) {
  Parsed parsed;
  json resolved = document;
  check(schema(), resolved, "", parsed.problems);
  if (!parsed.ok()) return parsed;
  parsed.job = from_checked_json(resolved);
  Rules(parsed.job, parsed.problems).check();
  return parsed;
}

Status set_path(json& document, const std::string& assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{Code::invalid_job,
                 "'" + assignment + "' is not path=value, such as training.steps=10"};
  }
  MUSTER_TRY(parts, path_parts(assignment.substr(0, equals)));
  MUSTER_TRY(values, parse_yaml("[" + assignment.substr(equals + 1) + "]", "the value"));
  json value = values.at(0).size() == 1 ? values[0][0] : json(assignment.substr(equals + 1));
  const bool rooted = parts[0] == "spec" || parts[0] == "metadata" || parts[0] == "kind" ||
                      parts[0] == "apiVersion";
  if (!rooted) parts.insert(parts.begin(), "spec");
  if (value.is_null()) return remove_path(document, parts);
  json* at = &document;
  for (const auto& part : parts) {
    if (at->is_array()) {
      const bool index =
          std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); });
      if (!index || part.size() > 6 || std::stoul(part) > at->size()) {
        return Error{Code::invalid_job, "'" + part + "' is no index of the list in " + assignment};
      }
      if (std::stoul(part) == at->size()) at->push_back(nullptr);
      at = &(*at)[std::stoul(part)];
      continue;
    }
    if (at->is_null()) *at = json::object();
    if (!at->is_object()) {
      return Error{Code::invalid_job,
                   "'" + part + "' cannot be set: what holds it is not an object"};
    }
    at = &(*at)[part];
  }
  *at = std::move(value);
  return {};
}

std::string spec_hash(const TrainingJob& job) {
  return "sha256:" + crypto::sha256_hex(to_json(job)["spec"].dump());
}

std::string describe(const std::vector<Problem>& problems, const std::string& source) {
  std::string text;
  for (const auto& p : problems) {
    text += source + ": " + (p.path.empty() ? "the document" : p.path) + " " + p.message + "\n";
  }
  return text;
}

}  // namespace muster::job
