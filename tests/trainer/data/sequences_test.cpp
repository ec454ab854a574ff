#include "trainer/data/sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.h"
#include "tests/trainer/data/token_bytes.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using Tokens16 = std::vector<std::uint16_t>;
using Tokens32 = std::vector<std::uint32_t>;

job::Data spec(const std::string& format, std::vector<std::string> train, std::int64_t length) {
  job::Data data;
  data.format = format;
  data.train = std::move(train);
  data.sequence_length = length;
  return data;
}

Datasets opened(const job::Data& data) {
  auto sets = open_sequences(data);
  EXPECT_TRUE(sets.ok()) << sets.error().message;
  return sets.ok() ? std::move(*sets) : Datasets{};
}

std::string refusal(const job::Data& data) {
  const auto sets = open_sequences(data);
  if (sets.ok()) return "accepted";
  EXPECT_EQ(sets.error().code, Code::invalid_data);
  return sets.error().message;
}

std::vector<std::int64_t> tokens(const Dataset& set, std::vector<std::int64_t> indices) {
  Batch batch;
  const auto status = set.read(indices, batch);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return batch.tokens;
}

std::string text(const Dataset& set, std::int64_t index) {
  std::string out;
  for (const auto token : tokens(set, {index})) out += static_cast<char>(token);
  return out;
}

TEST(Text, ABatchHoldsInputsAndTheTargetsOneAfter) {
  const TemporaryFolder folder;
  const auto sets = opened(spec("text", {folder.write("a.txt", "abcdefghi")}, 4));
  EXPECT_EQ(sets.train->size(), 2);
  EXPECT_EQ(sets.validation, nullptr);
  EXPECT_EQ(sets.train->shape().task, Task::language_model);
  EXPECT_EQ(sets.train->shape().vocabulary_size, 256);
  EXPECT_EQ(sets.train->shape().sequence_length, 4);
  Batch batch;
  const std::int64_t indices[] = {1, 0, 1};
  ASSERT_TRUE(sets.train->read(indices, batch).ok());
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.units, 12);
  EXPECT_THAT(batch.tokens, ElementsAre('e', 'f', 'g', 'h', 'i', 'a', 'b', 'c', 'd', 'e', 'e', 'f',
                                        'g', 'h', 'i'));
}

TEST(Text, BytesAbove127AreTokensAbove127) {
  const TemporaryFolder folder;
  const auto sets =
      opened(spec("text", {folder.write("a.txt", std::string("\xc3\xa4\0\xff", 4))}, 3));
  EXPECT_THAT(tokens(*sets.train, {0}), ElementsAre(0xc3, 0xa4, 0, 0xff));
}

// Each token but a file's first is predicted once; the tail that fills no window is left out.
TEST(Text, WindowsDoNotSpanFiles) {
  const TemporaryFolder folder;
  const auto sets = opened(
      spec("text",
           {folder.write("a", "abcdefg"), folder.write("b", "xy"), folder.write("c", "0123")}, 3));
  ASSERT_EQ(sets.train->size(), 3);
  EXPECT_EQ(text(*sets.train, 0), "abcd");
  EXPECT_EQ(text(*sets.train, 1), "defg");
  EXPECT_EQ(text(*sets.train, 2), "0123");
}

TEST(Text, ValidationTakesEachFilesEnd) {
  const TemporaryFolder folder;
  auto data = spec("text", {folder.write("a", "abcdefghi"), folder.write("b", "012345678")}, 2);
  data.validation_fraction = 0.25;
  const auto sets = opened(data);
  ASSERT_EQ(sets.train->size(), 6);
  ASSERT_EQ(sets.validation->size(), 2);
  EXPECT_EQ(text(*sets.train, 0), "abc");
  EXPECT_EQ(text(*sets.train, 2), "efg");
  EXPECT_EQ(text(*sets.train, 3), "012");
  EXPECT_EQ(text(*sets.train, 5), "456");
  EXPECT_EQ(text(*sets.validation, 0), "ghi");
  EXPECT_EQ(text(*sets.validation, 1), "678");
}

TEST(Text, ValidationFilesAreWholly) {
  const TemporaryFolder folder;
  auto data = spec("text", {folder.write("a", "abc")}, 2);
  data.validation = {folder.write("v", "vwxyz")};
  const auto sets = opened(data);
  EXPECT_EQ(sets.train->size(), 1);
  ASSERT_EQ(sets.validation->size(), 2);
  EXPECT_EQ(text(*sets.validation, 1), "xyz");
}

TEST(Text, TooShortIsAnErrorThatSaysWhatToChange) {
  const TemporaryFolder folder;
  const auto* rest =
      " holds a sequence of 4 tokens and the one after it; lower spec.data.sequenceLength or add "
      "data";
  const auto four = folder.write("four", "abcd"), five = folder.write("five", "abcde");
  EXPECT_EQ(refusal(spec("text", {four}, 4)), std::string("no file to train on") + rest);
  EXPECT_EQ(opened(spec("text", {five}, 4)).train->size(), 1);
  auto data = spec("text", {five}, 4);
  data.validation = {four};
  EXPECT_EQ(refusal(data), std::string("no file to validate on") + rest);
}

TEST(Text, AFractionThatLeavesASideEmptyIsAnError) {
  const TemporaryFolder folder;
  auto data = spec("text", {folder.write("a", "abcdefg")}, 2);  // 3 sequences
  const auto leaves = [](const std::string& what) {
    return "spec.data.validationFraction leaves no sequence of 2 tokens to " + what +
           "; change it, lower spec.data.sequenceLength or add data";
  };
  data.validation_fraction = 0.1;
  EXPECT_EQ(refusal(data), leaves("validate on"));
  data.validation_fraction = 0.9;
  EXPECT_EQ(refusal(data), leaves("train on"));
  data.validation_fraction = 0.3;
  EXPECT_EQ(opened(data).validation->size(), 1);
}

TEST(Tokens, Of16BitsAreLittleEndian) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.bin", token_bytes(Tokens16{1, 256, 65535, 7, 0, 9}));
  const auto sets = opened(spec("tokens", {path}, 2));
  ASSERT_EQ(sets.train->size(), 2);
  EXPECT_EQ(sets.train->shape().vocabulary_size, 65536);  // the largest token + 1
  EXPECT_THAT(tokens(*sets.train, {0, 1}), ElementsAre(1, 256, 65535, 65535, 7, 0));
}

TEST(Tokens, Of32BitsAreNotNegative) {
  const TemporaryFolder folder;
  auto data =
      spec("tokens", {folder.write("t.bin", token_bytes(Tokens32{70000, 4294967294, 3}))}, 2);
  data.token_bits = 32;
  const auto sets = opened(data);
  EXPECT_EQ(sets.train->shape().vocabulary_size, 4294967295);
  EXPECT_THAT(tokens(*sets.train, {0}), ElementsAre(70000, 4294967294, 3));
}

TEST(Tokens, ASizeThatIsNoMultipleIsAnError) {
  const TemporaryFolder folder;
  const auto odd = folder.write("odd.bin", "12345");
  auto data = spec("tokens", {odd}, 1);
  EXPECT_EQ(refusal(data),
            odd + ": its size is not a multiple of 2 bytes a token; check spec.data.tokenBits");
  data.token_bits = 32;
  data.train = {folder.write("six.bin", "123456")};
  EXPECT_EQ(refusal(data), data.train[0] +
                               ": its size is not a multiple of 4 bytes a token; check "
                               "spec.data.tokenBits");
}

TEST(Tokens, OutsideOfTheVocabularyIsNamedWhenRead) {
  const TemporaryFolder folder;
  auto data = spec("tokens", {folder.write("t.bin", token_bytes(Tokens16{1, 2, 3, 4, 5}))}, 2);
  data.vocabulary_size = 5;
  const auto sets = opened(data);
  EXPECT_EQ(sets.train->shape().vocabulary_size, 5);
  EXPECT_THAT(tokens(*sets.train, {0}), ElementsAre(1, 2, 3));
  Batch batch;
  const std::int64_t second[] = {1};
  const auto status = sets.train->read(second, batch);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::invalid_data);
  EXPECT_EQ(status.error().message,
            data.train[0] +
                ": token 4 is 5, outside the vocabulary of 5; check spec.data.vocabularySize and "
                "tokenBits");
}

TEST(Tokens, TheVocabularyHoldsThoseOfTheValidationFiles) {
  const TemporaryFolder folder;
  auto data = spec("tokens", {folder.write("t.bin", token_bytes(Tokens16{1, 2, 3}))}, 2);
  data.validation = {folder.write("v.bin", token_bytes(Tokens16{1, 9, 3}))};
  const auto sets = opened(data);
  EXPECT_EQ(sets.train->shape().vocabulary_size, 10);
  EXPECT_EQ(sets.validation->shape().vocabulary_size, 10);
  EXPECT_THAT(tokens(*sets.validation, {0}), ElementsAre(1, 9, 3));
}

TEST(Sequences, FilesAreNamedWhenTheyAreWrong) {
  const TemporaryFolder folder;
  const auto empty = folder.write("empty", "");
  EXPECT_EQ(refusal(spec("text", {folder.write("a", "abc"), empty}, 2)),
            empty + " is empty: it has no samples");
}

}  // namespace
}  // namespace muster::data
