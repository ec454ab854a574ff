#include "common/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json one(const std::string& text) {
  const auto documents = parse_yaml(text, "test");
  EXPECT_TRUE(documents.ok()) << documents.error().message;
  return documents.ok() && documents->size() == 1 ? documents->front() : json("none");
}

std::string refusal(const std::string& text) {
  const auto documents = parse_yaml(text, "test");
  return documents.ok() ? "accepted" : documents.error().message;
}

TEST(Yaml, FollowsTheCoreSchemaOfYaml12) {
  const auto v = one(
      R"({a: yes, b: on, c: '1', d: 1, e: 0x10, f: 0o17, g: 1e3, h: ~, i: true, j: "true", k: 1.5, l: 010, m: .5, n: +3, o: 1_000})");
  EXPECT_EQ(v["a"], "yes");
  EXPECT_EQ(v["b"], "on");
  EXPECT_EQ(v["c"], "1");
  EXPECT_EQ(v["d"], 1);
  EXPECT_EQ(v["e"], 16);
  EXPECT_EQ(v["f"], 15);
  EXPECT_EQ(v["g"], 1000.0);
  EXPECT_TRUE(v["h"].is_null());
  EXPECT_EQ(v["i"], true);
  EXPECT_EQ(v["j"], "true");
  EXPECT_EQ(v["k"], 1.5);
  EXPECT_EQ(v["l"], 10);
  EXPECT_EQ(v["m"], 0.5);
  EXPECT_EQ(v["n"], 3);
  EXPECT_EQ(v["o"], "1_000");
}

TEST(Yaml, ReadsSeveralDocumentsAndJson) {
  EXPECT_EQ(parse_yaml("a: 1\n---\nb: 2\n", "test")->size(), 2u);
  EXPECT_EQ(one("{\"a\": [1, 2.5, null, \"x\"]}")["a"].size(), 4u);
  EXPECT_TRUE(parse_yaml("", "test")->empty());
}

TEST(Yaml, RefusesWhatHidesMistakes) {
  EXPECT_THAT(refusal("a: 1\na: 2\n"), HasSubstr("stands twice"));
  EXPECT_THAT(refusal("a: &x {b: 1}\nc:\n  <<: *x\n"), HasSubstr("merge keys"));
  EXPECT_THAT(refusal("a: !!binary aGk=\n"), HasSubstr("tag"));
  EXPECT_THAT(refusal("a: [1, 2\n"), HasSubstr("test"));
}

TEST(Yaml, RefusesAnAliasBomb) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const auto n = std::to_string(i), p = std::to_string(i - 1);
    bomb += "a" + n + ": &a" + n + " [";
    for (int k = 0; k < 10; ++k) bomb += std::string(k ? ", " : "") + "*a" + p;
    bomb += "]\n";
  }
  EXPECT_THAT(refusal(bomb), HasSubstr("more than 100000 values"));
}

TEST(Yaml, RefusesWhatIsNotUtf8AndSaysWhere) {
  EXPECT_THAT(refusal("a: 1\nb: \xff\n"), HasSubstr("line 2: a byte that is not UTF-8"));
  EXPECT_THAT(refusal("a: \"\\ud800\"\n"), HasSubstr("invalid unicode"));
  EXPECT_EQ(one("a: \"\\xff\"\n")["a"], "\u00ff");
  EXPECT_EQ(one("a: \u00fc\n")["a"], "\u00fc");
}

TEST(Yaml, RefusesDepthAndSize) {
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(refusal(std::string(70, '[') + std::string(70, ']')), HasSubstr("nested deeper"));
  EXPECT_THAT(refusal(std::string((1 << 20) + 1, ' ')), HasSubstr("larger than"));
}

}  // namespace
}  // namespace muster
