#include "common/job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/file.h"
#include "common/job/schema.h"

namespace muster::job {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const char* smallest = R"(
apiVersion: muster.dev/v1alpha1
kind: TrainingJob
metadata: {name: penguins}
spec:
  model: {tabular: {}}
  data: {format: csv, train: [penguins.csv]}
  training: {epochs: 1}
)";

json document(const std::vector<std::string>& settings = {}) {
  auto doc = (*read_documents(smallest, "test"))[0];
  for (const auto& s : settings) EXPECT_TRUE(set_path(doc, s).ok()) << s;
  return doc;
}

TEST(Job, TheSmallestJobGetsTheDefaults) {
  const auto parsed = parse(document());
  ASSERT_TRUE(parsed.ok()) << describe(parsed.problems, "test");
  const auto& spec = parsed.job.spec;
  EXPECT_EQ(spec.model.tabular->hidden, (std::vector<std::int64_t>{64, 64}));
  EXPECT_EQ(spec.training.optimizer.type, "adamw");
  EXPECT_EQ(spec.recovery.heartbeat_timeout_seconds, 3);
  EXPECT_FALSE(spec.training.micro_batch_size.has_value());
  EXPECT_TRUE(check_supported(parsed.job).ok());
}

TEST(Job, AllGoodCasesAreAcceptedAndSurviveTheRoundTrip) {
  const auto text = read_file(std::string(MUSTER_SOURCE_DIR) + "/tests/common/job/cases/good.yaml");
  ASSERT_TRUE(text.ok());
  const auto documents = read_documents(*text, "good.yaml");
  ASSERT_TRUE(documents.ok()) << documents.error().message;
  EXPECT_EQ(documents->size(), 4u);
  for (const auto& d : *documents) {
    const auto parsed = parse(d);
    ASSERT_TRUE(parsed.ok()) << describe(parsed.problems, "good.yaml");
    const auto again = parse(to_json(parsed.job));
    ASSERT_TRUE(again.ok()) << describe(again.problems, "again");
    EXPECT_EQ(to_json(again.job), to_json(parsed.job));
    EXPECT_EQ(spec_hash(again.job), spec_hash(parsed.job));
  }
}

struct Bad {
  const char* setting;
  const char* path;
  const char* message;
};

class BadJob : public ::testing::TestWithParam<Bad> {};

TEST_P(BadJob, IsRefusedWithPathAndRemedy) {
  const auto parsed = parse(document({GetParam().setting}));
  ASSERT_FALSE(parsed.ok()) << GetParam().setting;
  EXPECT_THAT(describe(parsed.problems, "x"), HasSubstr(GetParam().path));
  EXPECT_THAT(describe(parsed.problems, "x"), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadJob,
    ::testing::Values(
        Bad{"training.epoch=3", "spec.training.epoch ", "did you mean epochs?"},
        Bad{"training.epochs=0", "spec.training.epochs ", "at least 1, but is 0"},
        Bad{"training.epochs=1.5", "spec.training.epochs ", "must be a whole number, but is 1.5"},
        Bad{"training.steps=5", "spec.training ", "exactly one of epochs and steps, but has both"},
        Bad{"training.optimizer.type=adamv", "spec.training.optimizer.type ",
            "did you mean adamw?"},
        Bad{"training.optimizer.learningRate=0", "learningRate ", "must be above 0"},
        Bad{"training.optimizer.betas=[0.9]", "betas ", "two numbers"},
        Bad{"training.optimizer.betas=[0.9, 1]", "betas ", "[0, 1)"},
        Bad{"training.precision=fp8", "precision ", "one of fp32, bf16, fp16, auto"},
        Bad{"training.earlyStopping={}", "earlyStopping ", "needs validation data"},
        Bad{"model.builtin={name: mlp}", "spec.model ", "exactly one of"},
        Bad{"model={}", "spec.model ", "but has 0"},
        Bad{"data.train=[]", "spec.data.train ", "name at least one file"},
        Bad{"data.train=a.csv", "spec.data.train ", "must be a list"},
        Bad{"data.format=text", "spec.data.format ", "model.tabular reads csv"},
        Bad{"data.validationFraction=1", "validationFraction ", "at most 0.99"},
        Bad{"data.tokenBits=24", "tokenBits ", "16 or 32"},
        Bad{"servers.replicas=1", "spec.servers.replicas ", "async or hybrid"},
        Bad{"workers.replicas=0", "spec.workers.replicas ", "at least 1"},
        Bad{"elasticPolicy={minReplicas: 2, maxReplicas: 4}", "spec.workers.replicas ", "between"},
        Bad{"elasticPolicy={minReplicas: 4, maxReplicas: 2}", "spec.elasticPolicy.minReplicas ",
            "at most maxReplicas (2), but is 4"},
        Bad{"failurePolicy={rules: [{action: Fail}]}", "spec.failurePolicy.rules[0] ",
            "onExitCodes or onReasons"},
        Bad{"metadata.namespace=A_b", "metadata.namespace ", "a-z, 0-9 and -"},
        Bad{"training.seed=9223372036854775808", "spec.training.seed ", "9223372036854775807"},
        Bad{"training.optimizer.learningRate=.inf", "learningRate ", "must be finite"},
        Bad{"metadata.name=Penguins", "metadata.name ", "a-z"},
        Bad{"apiVersion=muster.dev/v1", "apiVersion ", "muster.dev/v1alpha1"},
        Bad{"kind=Job", "kind ", "TrainingJob"},
        Bad{"output={}", "spec.output ", "must be a string, but is {}"},
        Bad{"model={builtin: {name: mlp, config: {hiden: [3]}}}",
            "spec.model.builtin.config.hiden ", "did you mean hidden?"},
        Bad{"model={builtin: {name: mlp, config: {activation: rel}}}",
            "spec.model.builtin.config.activation ", "did you mean relu?"},
        Bad{"workers.template=3", "spec.workers.template ", "must be an object"}),
    [](const auto& info) { return "Case" + std::to_string(info.index); });

TEST(Job, ANullIsNamed) {
  auto doc = document();
  doc["spec"]["output"] = nullptr;
  EXPECT_THAT(describe(parse(doc).problems, "x"), HasSubstr("must be a string, but is null"));
}

TEST(Job, AllProblemsAreToldAtOnce) {
  const auto parsed =
      parse(document({"training.epochs=0", "workers.replicas=-1", "data.formt=csv"}));
  EXPECT_EQ(parsed.problems.size(), 3u);
}

TEST(Job, WhatComesLaterIsOnePlainSentence) {
  for (const char* setting :
       {"strategy.type=zero", "strategy.type=async", "training.precision=bf16",
        "training.reproducibility=bitwise", "strategy.sync.localSteps=4",
        "strategy.sync.compression=bf16", "checkpoint.resumeFrom=/x"}) {
    const auto parsed = parse(document({setting}));
    ASSERT_TRUE(parsed.ok()) << setting;
    const auto supported = check_supported(parsed.job);
    ASSERT_FALSE(supported.ok()) << setting;
    EXPECT_EQ(supported.error().code, Code::unsupported);
    EXPECT_THAT(supported.error().message, HasSubstr("later version"));
  }
}

TEST(Job, SettingsReachListsAndRefuseNonsense) {
  auto doc = document({"data.train[0]=b.csv", "data.train[1]=c.csv", "spec.training.seed=7"});
  EXPECT_EQ(doc["spec"]["data"]["train"], json({"b.csv", "c.csv"}));
  EXPECT_EQ(doc["spec"]["training"]["seed"], 7);
  EXPECT_FALSE(set_path(doc, "training.seed").ok());
  EXPECT_TRUE(set_path(doc, "training.seed=null").ok());
  EXPECT_FALSE(doc["spec"]["training"].contains("seed"));
  EXPECT_TRUE(set_path(doc, "nowhere.at.all=null").ok());
  EXPECT_FALSE(doc["spec"].contains("nowhere"));
  EXPECT_FALSE(set_path(doc, "=3").ok());
  EXPECT_FALSE(set_path(doc, "a..b=3").ok());
  EXPECT_FALSE(set_path(doc, "data.train[9]=x").ok());
}

TEST(Job, TheApiDocumentIsUpToDate) {
  const auto text = read_file(std::string(MUSTER_SOURCE_DIR) + "/docs/api.md");
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, api_document()) << "run muster-api-doc > docs/api.md";
}

}  // namespace
}  // namespace muster::job
