#include "operator/crd/crd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/file.h"
#include "common/yaml.h"
#include "operator/trainingjob/job_object.h"

namespace muster::crd {
namespace {

using nlohmann::json;

std::string committed() {
  const auto text =
      read_file(std::string(MUSTER_SOURCE_DIR) + "/crds/muster.dev_trainingjobs.yaml");
  EXPECT_TRUE(text.ok());
  return text.ok() ? *text : "";
}

TEST(Crd, TheCommittedFileIsWhatIsGenerated) {
  const auto text = committed();
  EXPECT_EQ(text.substr(text.find('\n') + 1), to_yaml(definition()))
      << "run muster-crd > crds/muster.dev_trainingjobs.yaml";
}

// `kubectl apply` keeps a copy in an annotation, which may have 256 KiB.
TEST(Crd, FitsIntoAnAnnotation) {
  EXPECT_LT(committed().size(), 256u * 1024);
}

TEST(Crd, TheYamlIsTheDefinition) {
  const auto read = parse_yaml(to_yaml(definition()), "crd");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ((*read)[0], json::parse(definition().dump()));
}

void every_property(const json& schema, const std::string& path,
                    const std::function<void(const json&)>& look) {
  if (!schema.contains("properties")) return;
  for (const auto& [name, child] : schema["properties"].items()) {
    SCOPED_TRACE(path + "." + name);
    look(child);
    every_property(child, path + "." + name, look);
    if (child.contains("items")) every_property(child["items"], path + "." + name + "[]", look);
  }
}

json root() {
  return json::parse(definition().dump())["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
}

// CEL's cost is estimated from the caps, and kubectl explain shows the descriptions.
TEST(Crd, EveryFieldIsDescribedAndCapped) {
  int seen = 0;
  for (const char* part : {"spec", "status"}) {
    every_property(root()["properties"][part], part, [&](const json& field) {
      ++seen;
      EXPECT_GT(field.value("description", "").size(), 5u);
      EXPECT_TRUE(field.value("type", "") != "array" || field.contains("maxItems"));
      if (field.value("type", "") == "string") {
        EXPECT_TRUE(field.contains("maxLength") || field.contains("enum") ||
                    field.contains("format"));
      }
    });
  }
  EXPECT_GT(seen, 150);
}

TEST(Crd, EveryRuleSaysWhatToDo) {
  int rules = 0;
  const auto look = [&](const json& schema) {
    for (const auto& rule : schema.value("x-kubernetes-validations", json::array())) {
      ++rules;
      EXPECT_GT(rule.value("message", "").size(), 10u) << rule;
    }
  };
  look(root()["properties"]["spec"]);
  every_property(root(), "", look);
  EXPECT_GT(rules, 20);
}

// A field that the schema lacks would be dropped by the API server without a word.
TEST(Crd, TheWholeStatusIsInTheSchema) {
  trainingjob::JobStatus status;
  status.observed_generation = 2;
  status.phase = "Running";
  status.conditions = {{"Running", true, "running", "words", 1e9, 2}};
  status.start = status.completion = status.next_attempt = 1e9;
  status.spec_hash = "sha256:0";
  status.strategy = "sync";
  status.strategy_reason = "because";
  status.attempt = 3;
  status.between = true;
  status.failures = status.restarts = status.generation = 1;
  status.incarnations = {{"all", 1}, {"worker-2", 4}};
  status.attempts = {{1, 1e9, 1e9, "WorkerFailed", "a-worker-0-0", "node", 137, 12, "words"}};
  status.progress = {{"step", 1},
                     {"totalSteps", 10},
                     {"percentage", 10},
                     {"epoch", 1},
                     {"loss", "0.1"},
                     {"validationLoss", "0.1"},
                     {"samplesPerSecond", "2"},
                     {"checkpointStep", 1},
                     {"lastStepTime", "2026-01-01T00:00:00Z"}};
  status.result = {{"parametersSha256", "0"},
                   {"steps", 1},
                   {"samples", 2},
                   {"finalLoss", "0.1"},
                   {"validationLoss", "0.1"},
                   {"validationAccuracy", "1"}};
  status.message = "words";
  auto written = trainingjob::to_json(status, "a=b");
  std::vector<job::Problem> problems;
  job::check(status_schema(), written, "status", problems);
  EXPECT_TRUE(problems.empty()) << job::describe(problems, "status");
  const auto again = trainingjob::status_of_json(trainingjob::to_json(status, "a=b"));
  EXPECT_EQ(trainingjob::to_json(again, "a=b"), trainingjob::to_json(status, "a=b"));
}

}  // namespace
}  // namespace muster::crd
