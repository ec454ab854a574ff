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

// Every document of bad.yaml says in its annotations where it is wrong and what is to be said about
// it.
TEST(Job, AllBadCasesAreRefusedWithPathAndRemedy) {
  const auto text = read_file(std::string(MUSTER_SOURCE_DIR) + "/tests/common/job/cases/bad.yaml");
  ASSERT_TRUE(text.ok());
  const auto documents = read_documents(*text, "bad.yaml");
  ASSERT_TRUE(documents.ok()) << documents.error().message;
  EXPECT_GE(documents->size(), 40u);
  for (const auto& d : *documents) {
    const auto parsed = parse(d);
    EXPECT_FALSE(parsed.ok()) << d.dump();
    const auto& annotations = d["metadata"]["annotations"];
    const auto told = describe(parsed.problems, "x");
    EXPECT_THAT(told, HasSubstr("x: " + annotations["path"].get<std::string>() + " ")) << d.dump();
    EXPECT_THAT(told, HasSubstr(annotations["says"].get<std::string>())) << d.dump();
  }
}

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
