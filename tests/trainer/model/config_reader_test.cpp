#include "trainer/model/config_reader.h"

#include <gmock/gmock.h>

namespace muster::model {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ConfigReader, ReadsValuesAndFillsInDefaults) {
  const json config = {{"layers", 3}, {"tied", false}, {"rate", 0.5}, {"hidden", {4, 5}}};
  ConfigReader reader("toy", config);
  EXPECT_EQ(reader.integer("layers", 12, 1), 3);
  EXPECT_EQ(reader.integer("heads", 12, 1), 12);
  EXPECT_FALSE(reader.boolean("tied", true));
  EXPECT_EQ(reader.number("rate", 0), 0.5);
  EXPECT_EQ(reader.text("activation", "relu"), "relu");
  EXPECT_THAT(reader.integers("hidden", {}, 1), testing::ElementsAre(4, 5));
  EXPECT_TRUE(reader.finish().ok());
}

TEST(ConfigReader, NamesTheNearestOfTheKnownFields) {
  const json config = {{"tieWeight", true}};
  ConfigReader reader("gpt2", config);
  reader.integer("layers", 12, 1);
  reader.boolean("tieWeights", true);
  const Status status = reader.finish();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::invalid_job);
  EXPECT_THAT(status.error().message, HasSubstr("spec.model.builtin.config.tieWeight"));
  EXPECT_THAT(status.error().message, HasSubstr("did you mean tieWeights?"));
}

TEST(ConfigReader, RefusesWrongTypesAndRanges) {
  for (const json& value : {json(0), json(-1), json(1.5), json("3"), json(std::int64_t{1} << 40),
                            json(nullptr), json::array({1})}) {
    const json config = {{"layers", value}};
    ConfigReader reader("toy", config);
    EXPECT_EQ(reader.integer("layers", 12, 1), 12);
    const Status status = reader.finish();
    ASSERT_FALSE(status.ok()) << value;
    EXPECT_THAT(status.error().message, HasSubstr("but is " + value.dump()));
  }
}

TEST(ConfigReader, ReportsTheFirstWrongValue) {
  const json config = {{"a", "x"}, {"b", {0}}};
  ConfigReader reader("toy", config);
  reader.boolean("a", true);
  reader.integers("b", {}, 1);
  ASSERT_FALSE(reader.finish().ok());
  EXPECT_THAT(reader.finish().error().message, HasSubstr("config.a: must be true or false"));
}

TEST(ConfigReader, RefusesAConfigThatIsNoMapping) {
  const json config = json::array({1});
  ConfigReader reader("toy", config);
  EXPECT_EQ(reader.integer("layers", 2, 1), 2);
  EXPECT_FALSE(reader.finish().ok());
}

}  // namespace
}  // namespace muster::model
