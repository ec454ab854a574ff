#include "trainer/data/tabular.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/temporary_folder.h"

namespace muster::data {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Tabular : public ::testing::Test {
 protected:
  // A job over the file a.csv of this text.
  job::Data csv(const std::string& text) {
    job::Data data;
    data.format = "csv";
    data.train = {folder.write("a.csv", text)};
    return data;
  }
  job::Data csv(const std::string& train, const std::string& validation) {
    auto data = csv(train);
    data.validation = {folder.write("v.csv", validation)};
    return data;
  }
  std::string at(const std::string& place) const { return folder.file(place); }

  const TemporaryFolder folder;
};

Datasets opened(const job::Data& data, std::int64_t seed = 0) {
  auto sets = open_csv(data, seed);
  EXPECT_TRUE(sets.ok()) << sets.error().message;
  return sets.ok() ? std::move(*sets) : Datasets{};
}

std::string refusal(const job::Data& data) {
  const auto sets = open_csv(data, 0);
  if (sets.ok()) return "accepted";
  EXPECT_EQ(sets.error().code, Code::invalid_data);
  return sets.error().message;
}

Batch all(const Dataset& set) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.begin(), indices.end(), 0);
  Batch batch;
  EXPECT_TRUE(set.read(indices, batch).ok());
  return batch;
}

TEST_F(Tabular, InfersTheTypesAndTheTask) {
  const auto sets = opened(csv("n,c,m,y\n1,x,1e1,b\n+3,y, -2.5 ,a\n2,x,.5,b\n"));
  const auto& shape = sets.train->shape();
  EXPECT_EQ(shape.task, Task::classification);
  EXPECT_EQ(shape.number_columns, 2);
  EXPECT_THAT(shape.category_names, ElementsAre("c"));
  EXPECT_THAT(shape.category_sizes, ElementsAre(3));
  EXPECT_EQ(shape.classes, 2);
  EXPECT_EQ(shape.vocabulary_size, 0);
  EXPECT_EQ(sets.train->size(), 3);
  EXPECT_EQ(sets.validation, nullptr);
  const auto batch = all(*sets.train);
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.units, 3);
  EXPECT_THAT(batch.categories, ElementsAre(1, 2, 1));
  EXPECT_THAT(batch.classes, ElementsAre(1, 0, 1));  // in the order of their names
  EXPECT_THAT(batch.values, IsEmpty());
  EXPECT_THAT(batch.tokens, IsEmpty());
}

TEST_F(Tabular, ReadsTheRowsThatAreAskedForInThatOrder) {
  const auto sets = opened(csv("n,c,y\n-1,x,a\n1,y,b\n-1,z,c\n1,w,d\n"));
  Batch batch = all(*sets.train);  // read() drops what was there
  const std::int64_t indices[] = {3, 0, 3};
  ASSERT_TRUE(sets.train->read(indices, batch).ok());
  EXPECT_EQ(batch.samples, 3);
  EXPECT_THAT(batch.numbers, ElementsAre(1, -1, 1));
  EXPECT_THAT(batch.categories, ElementsAre(1, 2, 1));  // w, x, w
  EXPECT_THAT(batch.classes, ElementsAre(3, 0, 3));
}

// 2, 4, 4, 4, 5, 5, 7, 9: mean 5, deviation 2.
TEST_F(Tabular, NormalisesByTheMeanAndDeviation) {
  const auto sets = opened(csv("n,y\n2,a\n4,b\n4,a\n4,b\n5,a\n5,b\n7,a\n9,b\n"));
  EXPECT_THAT(all(*sets.train).numbers, ElementsAre(-1.5, -.5, -.5, -.5, 0, 0, 1, 2));
  EXPECT_EQ(sets.train->shape().preprocessing["numbers"],
            json::parse(R"([{"name": "n", "mean": 5.0, "stddev": 2.0}])"));
}

TEST_F(Tabular, ValidationRowsDoNotMoveTheStatistics) {
  const auto sets = opened(csv("n,c,y\n1,x,a\n3,y,b\n", "n,c,y\n1000000,x,a\n2,new,b\n,,a\n"));
  EXPECT_THAT(all(*sets.train).numbers, ElementsAre(-1, 1));
  const auto held_out = all(*sets.validation);
  EXPECT_THAT(held_out.numbers, ElementsAre(999998, 0, 0));
  EXPECT_THAT(held_out.categories, ElementsAre(1, 0, 0));  // new and missing: slot 0
  EXPECT_THAT(held_out.classes, ElementsAre(0, 1, 0));
  EXPECT_EQ(sets.validation->shape().preprocessing, sets.train->shape().preprocessing);
  EXPECT_THAT(sets.validation->shape().category_sizes, ElementsAre(3));
}

TEST_F(Tabular, HeldOutRowsDoNotMoveTheStatistics) {
  std::string text = "n,y\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(1 << i) + (i % 2 ? ",a\n" : ",b\n");
  auto data = csv(text);
  data.validation_fraction = 0.25;
  const auto sets = opened(data);
  ASSERT_EQ(sets.train->size(), 15);
  ASSERT_EQ(sets.validation->size(), 5);
  // Normalised training rows have mean 0 and deviation 1, whichever they are.
  double sum = 0, squares = 0;
  for (const double v : all(*sets.train).numbers) sum += v, squares += v * v;
  EXPECT_NEAR(sum, 0, 1e-5);
  EXPECT_NEAR(squares, 15, 1e-4);
}

class Missing : public Tabular, public ::testing::WithParamInterface<const char*> {};

TEST_P(Missing, IsTheMeanOfNumbersAndSlot0OfCategories) {
  const std::string cell = GetParam();
  const auto sets = opened(csv("n,c,y\n1,x,a\n" + cell + "," + cell + ",b\n3,y,b\n"));
  const auto& shape = sets.train->shape();
  EXPECT_EQ(shape.number_columns, 1);
  EXPECT_THAT(shape.category_sizes, ElementsAre(3));
  EXPECT_THAT(all(*sets.train).numbers, ElementsAre(-1, 0, 1));
  EXPECT_THAT(all(*sets.train).categories, ElementsAre(1, 0, 2));
}

TEST_P(Missing, IsAnErrorInTheOutput) {
  const std::string cell = GetParam();
  const auto* rest = "column 'y': the output is missing; remove the row";
  EXPECT_EQ(refusal(csv("n,y\n1,a\n\n2,b\n3," + cell + "\n")), at("a.csv:5: ") + rest);
  EXPECT_EQ(refusal(csv("n,y\n1,1.5\n2,2.5\n3," + cell + "\n")), at("a.csv:4: ") + rest);
  EXPECT_EQ(refusal(csv("n,y\n1,a\n2,b\n", "n,y\n3," + cell + "\n")), at("v.csv:2: ") + rest);
}

INSTANTIATE_TEST_SUITE_P(Spellings, Missing,
                         ::testing::Values("", "NA", "N/A", "NaN", "nan", "null", "None", "?", " ",
                                           " ? ", "\t", "\"\""));

TEST_F(Tabular, OtherWordsAreCategories) {
  const auto sets = opened(csv("c,y\nna,a\nNULL?,b\n-,b\n"));
  EXPECT_THAT(sets.train->shape().category_sizes, ElementsAre(4));
}

TEST_F(Tabular, AColumnWithoutAnyValueIsACategoryOfSlot0) {
  const auto sets = opened(csv("e,n,y\n,1,a\n,2,b\n", "e,n,y\nx,1,a\n"));
  EXPECT_THAT(sets.train->shape().category_sizes, ElementsAre(1));
  EXPECT_THAT(all(*sets.validation).categories, ElementsAre(0));
  auto data = csv("e,y\n,a\n,b\n");
  data.tabular.inputs = {{"e", "number"}};
  EXPECT_THAT(all(*opened(data).train).numbers, ElementsAre(0, 0));
}

TEST_F(Tabular, AConstantColumnGivesZeros) {
  std::string text = "n,y\n";  // ten times 0.1 sums up to a little less than 1
  for (int i = 0; i < 10; ++i) text += i % 2 ? "0.1,a\n" : "0.1,b\n";
  const auto sets = opened(csv(text, "n,y\n0.1,a\n2.1,b\n"));
  EXPECT_THAT(all(*sets.train).numbers, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(all(*sets.validation).numbers, ElementsAre(0, 2));
}

std::string not_finite(const std::string& column, const std::string& cell) {
  return " column '" + column + "': '" + cell +
         "' is not a finite number of 32 bits; correct it, leave it empty, or declare the column "
         "as a category in spec.data.tabular";
}

TEST_F(Tabular, ANumberThatIsNotFiniteIsNamed) {
  for (const std::string cell :
       {"inf", "-inf", "Infinity", "NAN", "1e999", "-1e999", "1e39", "-3.5e38"}) {
    EXPECT_EQ(refusal(csv("n,y\n1,a\n2,b\n" + cell + ",b\n")),
              at("a.csv:4:") + not_finite("n", cell));
    EXPECT_EQ(refusal(csv("n,y\n1,a\n2,b\n", "n,y\n1,a\n" + cell + ",b\n")),
              at("v.csv:3:") + not_finite("n", cell));
    EXPECT_EQ(refusal(csv("n,y\n1,1\n2,2\n1," + cell + "\n")),
              at("a.csv:4:") + not_finite("y", cell));
  }
}

TEST_F(Tabular, LargeAndSmallNumbersAreTaken) {
  const auto sets = opened(csv("n,m,y\n3e38,0,a\n-3e38,1e-999,b\n"));
  EXPECT_EQ(sets.train->shape().number_columns, 2);
  EXPECT_THAT(all(*sets.train).numbers, ElementsAre(1, 0, -1, 0));
}

TEST_F(Tabular, AValueThatOverflowsWhenNormalisedIsNamed) {
  EXPECT_EQ(refusal(csv("n,y\n0,a\n1e-5,b\n", "n,y\n3e38,a\n")),
            at("v.csv:2: ") + "column 'n': '3e38' is too far from the training rows; correct it");
}

TEST_F(Tabular, ATextInADeclaredNumberIsNamed) {
  for (const std::string cell : {"x", "1,5", "1.2.3", "0x10", "+-5", "--5", "1 2", "5%", "+"}) {
    auto data = csv("n,y\n1,a\n\"" + cell + "\",b\n3,b\n");
    data.tabular.inputs = {{"n", "number"}};
    EXPECT_EQ(refusal(data), at("a.csv:3:") + not_finite("n", cell));
  }
  auto data = csv("n,y\n1,1\n2,2\n", "n,y\n1,two\n");
  EXPECT_EQ(refusal(data), at("v.csv:2:") + not_finite("y", "two"));
}

TEST_F(Tabular, AFewTextsAmongManyNumbersAreAMistake) {
  std::string input = "n,y\n", output = "n,y\n";
  for (int i = 1; i <= 27; ++i) {
    input += std::to_string(i) + (i % 2 ? ",a\n" : ",b\n");
    output += "1," + std::to_string(i) + "\n";
  }
  const auto named = [](const std::string& column, const std::string& cell) {
    return "column '" + column + "': '" + cell +
           "' is not a number, but nearly all of the column are; correct it, leave it empty, or "
           "declare the column as a category in spec.data.tabular";
  };
  EXPECT_EQ(refusal(csv(input + "n.a.,a\n-,b\n#,b\n")), at("a.csv:29: ") + named("n", "n.a."));
  EXPECT_EQ(refusal(csv(output + "2,3o\n")), at("a.csv:29: ") + named("y", "3o"));
  // With more than a tenth of texts it is a category, as it is when declared.
  EXPECT_THAT(opened(csv(input + "p,a\nq,b\nr,b\ns,a\n")).train->shape().category_sizes,
              ElementsAre(32));
  auto declared = csv(input + "n.a.,a\n");
  declared.tabular.inputs = {{"n", "category"}};
  EXPECT_THAT(opened(declared).train->shape().category_sizes, ElementsAre(29));
  // A few different numbers are categories: 0, 1, 2 and "3 and more".
  std::string few = "c,y\n";
  for (int i = 0; i < 60; ++i) few += std::to_string(i % 20) + (i % 2 ? ",a\n" : ",b\n");
  EXPECT_THAT(opened(csv(few + "20+,a\n")).train->shape().category_sizes, ElementsAre(22));
}

TEST_F(Tabular, ADeclaredTypeHoldsWhateverTheValuesAre) {
  auto data = csv("n,zip,y\n1,1010,0\n2,1020,1\n3,1010,0\n");
  data.tabular.inputs = {{"zip", "category"}, {"n", "auto"}};
  data.tabular.output = {"y", "category"};
  const auto sets = opened(data);
  EXPECT_EQ(sets.train->shape().task, Task::classification);
  EXPECT_EQ(sets.train->shape().classes, 2);
  EXPECT_EQ(sets.train->shape().number_columns, 1);
  EXPECT_THAT(all(*sets.train).categories, ElementsAre(1, 2, 1));
  EXPECT_THAT(all(*sets.train).classes, ElementsAre(0, 1, 0));
}

TEST_F(Tabular, OnlyTheNamedColumnsAreTaken) {
  auto data = csv("a,b,c,d\n1,x,7,p\n3,y,9,q\n");
  data.tabular.inputs = {{"c", "auto"}};
  data.tabular.output.name = "b";
  const auto sets = opened(data);
  EXPECT_THAT(all(*sets.train).numbers, ElementsAre(-1, 1));
  EXPECT_THAT(sets.train->shape().category_names, IsEmpty());
  EXPECT_EQ(sets.train->shape().preprocessing["output"],
            json::parse(R"({"name": "b", "classes": ["x", "y"]})"));
  data.tabular.inputs.clear();  // all but the output
  EXPECT_EQ(opened(data).train->shape().number_columns, 2);
  EXPECT_THAT(opened(data).train->shape().category_names, ElementsAre("d"));
}

TEST_F(Tabular, AnUnknownColumnIsAnErrorThatListsThem) {
  auto data = csv("a,b\n1,x\n2,y\n");
  data.tabular.inputs = {{"A", "auto"}};
  EXPECT_EQ(refusal(data), at("a.csv") + " has no column 'A'; its columns are: a, b");
  data.tabular.inputs = {};
  data.tabular.output.name = "label";
  EXPECT_EQ(refusal(data), at("a.csv") + " has no column 'label'; its columns are: a, b");
}

TEST_F(Tabular, TheOutputIsNoInput) {
  auto data = csv("a,y\n1,p\n2,q\n");
  data.tabular.inputs = {{"a", "auto"}, {"y", "auto"}};
  EXPECT_EQ(refusal(data), at("a.csv") +
                               ": the column 'y' is both an input and the output; remove it from "
                               "spec.data.tabular.inputs or name another output");
  data.tabular.inputs = {{"a", "auto"}, {"a", "category"}};
  EXPECT_EQ(refusal(data),
            at("a.csv") + ": the column 'a' stands twice in spec.data.tabular.inputs");
}

TEST_F(Tabular, AFileOfOneColumnHasNothingToPredictFrom) {
  EXPECT_EQ(refusal(csv("a;y\n1;p\n2;q\n")),
            at("a.csv") +
                " has no column but 'a;y', so there is nothing to predict it from; columns are "
                "separated by commas");
}

TEST_F(Tabular, AClassThatTrainingNeverSawIsNamed) {
  EXPECT_EQ(refusal(csv("n,y\n1,a\n2,b\n", "n,y\n1,a\n\n2,c\n")),
            at("v.csv:4: ") +
                "column 'y': the class 'c' is not among the training rows; add rows of it to "
                "spec.data.train, or remove this one");
  // One row of a class: an error when it is held out, and only then.
  std::string text = "n,y\n";
  for (int i = 0; i < 30; ++i) text += i % 2 ? "1,a\n" : "2,b\n";
  auto data = csv(text + "3,rare\n");
  data.validation_fraction = 0.5;
  int held_out = 0;
  for (std::int64_t seed = 0; seed < 20; ++seed) {
    const auto sets = open_csv(data, seed);
    if (sets.ok()) {
      EXPECT_EQ(sets->train->shape().classes, 3);
    } else {
      ++held_out;
      EXPECT_THAT(sets.error().message,
                  HasSubstr(at("a.csv:32: ") + "column 'y': the class 'rare' is not among"));
    }
  }
  EXPECT_GT(held_out, 2);
  EXPECT_LT(held_out, 18);
}

TEST_F(Tabular, OneClassIsAnError) {
  const auto message = at("a.csv") +
                       ": the output column 'y' has fewer than two classes; choose another one in "
                       "spec.data.tabular.output";
  EXPECT_EQ(refusal(csv("n,y\n1,a\n2,a\n")), message);
  EXPECT_EQ(refusal(csv("n,y\n1,\n2,\n")), message);
}

// 10, 20, 30, 40: mean 25, deviation sqrt(125).
TEST_F(Tabular, ARegressionTargetIsNormalisedByTheTrainingRows) {
  const auto sets = opened(csv("c,y\nx,10\ny,20\nx,30\ny,40\n", "c,y\nx,25\n"));
  const auto& shape = sets.train->shape();
  EXPECT_EQ(shape.task, Task::regression);
  EXPECT_EQ(shape.classes, 0);
  EXPECT_EQ(shape.number_columns, 0);
  EXPECT_DOUBLE_EQ(shape.value_mean, 25);
  EXPECT_DOUBLE_EQ(shape.value_stddev, std::sqrt(125));
  const auto batch = all(*sets.train);
  const float one = 5 / std::sqrt(125.0f);
  EXPECT_THAT(batch.values,
              ElementsAre(FloatEq(-3 * one), FloatEq(-one), FloatEq(one), FloatEq(3 * one)));
  EXPECT_THAT(batch.classes, IsEmpty());
  EXPECT_THAT(all(*sets.validation).values, ElementsAre(0));
  EXPECT_EQ(shape.preprocessing["output"]["mean"], 25.0);
}

TEST_F(Tabular, SeveralFilesAreOneTable) {
  auto data = csv("n,c,y\n1,x,a\n");
  data.train.push_back(folder.write("b.csv", "n,c,y\n3,y,b\n5,x,a\n"));
  const auto sets = opened(data);
  EXPECT_EQ(sets.train->size(), 3);
  EXPECT_THAT(all(*sets.train).categories, ElementsAre(1, 2, 1));
  EXPECT_THAT(all(*sets.train).classes, ElementsAre(0, 1, 0));
  EXPECT_EQ(sets.train->shape().preprocessing["numbers"][0]["mean"], 3.0);
  data.train.push_back(folder.write("c.csv", "n,c,y\nx,x,a\n"));
  data.tabular.inputs = {{"n", "number"}};
  EXPECT_EQ(refusal(data), at("c.csv:2:") + not_finite("n", "x"));
}

TEST_F(Tabular, HeadersThatDifferAreAnError) {
  auto data = csv("n,c,y\n1,x,a\n2,y,b\n");
  const auto message = [&](const std::string& file, const std::string& what) {
    return at(file) + ": its header differs from that of " + at("a.csv") + ": column " + what +
           "; make all headers alike";
  };
  data.train.push_back(folder.write("b.csv", "n,k,y\n1,x,a\n"));
  EXPECT_EQ(refusal(data), message("b.csv", "2 is 'k', there 'c'"));
  data.train[1] = folder.write("b.csv", "n,c\n1,x\n");
  EXPECT_EQ(refusal(data), message("b.csv", "3 is absent, there 'y'"));
  data.train[1] = folder.write("b.csv", "n,c,y,z\n1,x,a,1\n");
  EXPECT_EQ(refusal(data), message("b.csv", "4 is 'z', there absent"));
  data.train.pop_back();
  data.validation = {folder.write("v.csv", "c,n,y\nx,1,a\n")};
  EXPECT_EQ(refusal(data), message("v.csv", "1 is 'c', there 'n'"));
}

// The column n as it stands in the file.
std::vector<float> rows_of(const Dataset& set) {
  auto values = all(set).numbers;
  const auto& n = set.shape().preprocessing["numbers"][0];
  for (auto& v : values) v = std::round(v * n["stddev"].get<float>() + n["mean"].get<float>());
  return values;
}

TEST_F(Tabular, TheSplitIsExactAndDisjoint) {
  std::string text = "n,y\n";
  for (int i = 0; i < 50; ++i) text += std::to_string(i) + (i % 2 ? ",a\n" : ",b\n");
  auto data = csv(text);
  for (const auto& [fraction, size] : {std::pair{0.2, 10}, {0.01, 1}, {0.25, 13}, {0.9, 45}}) {
    data.validation_fraction = fraction;
    const auto sets = opened(data);
    EXPECT_EQ(sets.validation->size(), size);
    EXPECT_EQ(sets.train->size(), 50 - size);
    auto rows = rows_of(*sets.train);
    const auto held_out = rows_of(*sets.validation);
    rows.insert(rows.end(), held_out.begin(), held_out.end());
    std::sort(rows.begin(), rows.end());
    for (int i = 0; i < 50; ++i) EXPECT_EQ(rows[static_cast<std::size_t>(i)], i);
  }
}

TEST_F(Tabular, TheSeedChoosesTheSplit) {
  std::string text = "n,y\n";
  for (int i = 0; i < 50; ++i) text += std::to_string(i) + (i % 2 ? ",a\n" : ",b\n");
  auto data = csv(text);
  data.validation_fraction = 0.2;
  const auto first = rows_of(*opened(data, 1).validation);
  EXPECT_EQ(rows_of(*opened(data, 1).validation), first);
  EXPECT_NE(rows_of(*opened(data, 2).validation), first);
}

TEST_F(Tabular, TooFewRowsToSplitIsAnError) {
  auto data = csv("n,y\n1,a\n2,b\n3,a\n");
  data.validation_fraction = 0.1;
  EXPECT_EQ(refusal(data),
            at("a.csv") +
                ": spec.data.validationFraction leaves no row to validate on; change it "
                "or add rows");
  data.validation_fraction = 0.9;
  EXPECT_EQ(refusal(data),
            at("a.csv") +
                ": spec.data.validationFraction leaves no row to train on; change it or "
                "add rows");
}

TEST_F(Tabular, BrokenFilesAreNamed) {
  EXPECT_EQ(refusal(csv("n,y\n1,a\n2\n")),
            at("a.csv:3: ") + "the row has 1 fields, the header has 2; correct or remove the row");
  EXPECT_EQ(refusal(csv("n,y\n1,a\n2,b\n", "n,y\n")),
            at("v.csv") + " has no rows below its header");
}

TEST_F(Tabular, OpensTheExample) {
  job::Data data;
  data.format = "csv";
  data.train = {MUSTER_SOURCE_DIR "/examples/data/penguins.csv"};
  data.validation_fraction = 0.2;
  data.tabular.output = {"species", "category"};
  const auto sets = opened(data);
  EXPECT_EQ(sets.train->size(), 275);
  EXPECT_EQ(sets.validation->size(), 69);
  EXPECT_EQ(sets.train->shape().classes, 3);
  EXPECT_EQ(sets.train->shape().number_columns, 5);
  EXPECT_THAT(sets.train->shape().category_names, ElementsAre("island", "sex"));
  EXPECT_THAT(sets.train->shape().category_sizes, ElementsAre(4, 3));
}

TEST_F(Tabular, DescribesHowToPrepareNewInputs) {
  const auto sets = opened(csv("n,c,y\n1,Z\xc3\xbcrich,no\n3,Bern,yes\n"));
  EXPECT_EQ(json::parse(sets.train->shape().preprocessing.dump()), json::parse(R"({
    "numbers": [{"name": "n", "mean": 2.0, "stddev": 1.0}],
    "categories": [{"name": "c", "values": ["Bern", "Zürich"]}],
    "output": {"name": "y", "classes": ["no", "yes"]}})"));
}

}  // namespace
}  // namespace muster::data
