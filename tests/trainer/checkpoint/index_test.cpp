#include "trainer/checkpoint/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.h"
#include "tests/trainer/checkpoint/small_state.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const Layout small = layout_of({{"w", 30}, {"b", 7}});

void write_at(const std::string& path, std::size_t at, char byte) {
  auto content = *read_file(path);
  content[at] = byte;
  ASSERT_TRUE(replace_file(path, content).ok());
}

class IndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_checkpoint(folder.path(), 10, small, 2).ok());
    ASSERT_TRUE(write_checkpoint(folder.path(), 20, small, 2).ok());
  }
  std::int64_t newest(const std::string& uid = "uid") {
    skipped.clear();
    const auto index = newest_valid(folder.path(), uid, &skipped);
    EXPECT_TRUE(index.ok());
    return *index ? (*index)->step : -1;
  }
  std::string newer_index() const { return index_path(folder.path(), 20); }
  std::string newer_shard() const { return folder.path() + "/" + shard_path(20, 1, 1); }
  const TemporaryFolder folder;
  std::vector<std::string> skipped;
};

TEST_F(IndexTest, TheNewestIsChosenAndReadAsWritten) {
  EXPECT_EQ(newest(), 20);
  EXPECT_TRUE(skipped.empty());
  const auto index = read_index(newer_index());
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->layout, small);
  EXPECT_EQ(index->shards.size(), 2u);
  EXPECT_EQ(to_json(*index_from_json(to_json(*index))), to_json(*index));
}

TEST_F(IndexTest, ATornIndexIsNeverChosen) {
  const auto whole = *read_file(newer_index());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(replace_file(newer_index(), whole.substr(0, size)).ok());
    ASSERT_EQ(newest(), 10) << size;
  }
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_THAT(skipped[0], HasSubstr("torn"));
}

TEST_F(IndexTest, AFlippedByteAnywhereIsNoticed) {
  const auto whole = *read_file(newer_index());
  for (std::size_t i = 0; i < whole.size(); i += 3) {
    auto damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    ASSERT_TRUE(replace_file(newer_index(), damaged).ok());
    ASSERT_EQ(newest(), 10) << i;
  }
}

TEST_F(IndexTest, AShardThatIsMissingShortOrDamagedIsNoticed) {
  const auto whole = *read_file(newer_shard());
  ASSERT_TRUE(replace_file(newer_shard(), whole.substr(0, whole.size() - 1)).ok());
  EXPECT_EQ(newest(), 10);
  EXPECT_THAT(skipped.at(0), HasSubstr("another size"));
  ASSERT_TRUE(replace_file(newer_shard(), whole).ok());
  write_at(newer_shard(), whole.size() - 1, static_cast<char>(whole.back() ^ 1));
  EXPECT_EQ(newest(), 10);
  EXPECT_THAT(skipped.at(0), HasSubstr("another SHA-256"));
  fs::remove(newer_shard());
  EXPECT_EQ(newest(), 10);
  EXPECT_THAT(skipped.at(0), HasSubstr(newer_shard()));
}

TEST_F(IndexTest, AnIncompleteSetOfShardsIsNotChosen) {
  auto index = *write_shards(folder.path(), 30, small, 3);
  index.shards.erase(index.shards.begin() + 1);
  ASSERT_TRUE(publish(folder.path(), index).ok());
  EXPECT_EQ(newest(), 20);
  EXPECT_THAT(skipped.at(0), HasSubstr("in no shard"));
}

TEST_F(IndexTest, OnlyTheJobsOwnAreChosenUnlessAnyWillDo) {
  ASSERT_TRUE(write_checkpoint(folder.path(), 30, small, 1, "another").ok());
  EXPECT_EQ(newest(), 20);
  EXPECT_THAT(skipped.at(0), HasSubstr("another job"));
  EXPECT_EQ(newest(""), 30);
  EXPECT_EQ(newest("nobody"), -1);
}

TEST_F(IndexTest, OtherFilesAreNoIndexes) {
  for (const char* name :
       {"index-.json", "index-x.json", "index-99.json.new", "index-99", "notes"}) {
    ASSERT_TRUE(replace_file(folder.path() + "/" + name, "x").ok());
  }
  EXPECT_EQ(newest(), 20);
  EXPECT_TRUE(skipped.empty());
}

TEST_F(IndexTest, AFolderThatIsNotThereHasNone) {
  const auto index = newest_valid(folder.path() + "/none", "uid");
  ASSERT_TRUE(index.ok());
  EXPECT_FALSE(*index);
}

TEST_F(IndexTest, PruningKeepsTheNewestTheBestAndWhatIsBeingWritten) {
  for (const std::int64_t step : {30, 40, 50}) {
    ASSERT_TRUE(write_checkpoint(folder.path(), step, small, 1).ok());
  }
  ASSERT_TRUE(write_shards(folder.path(), 45, small, 1).ok());  // never published
  ASSERT_TRUE(write_shards(folder.path(), 60, small, 1).ok());  // not yet
  ASSERT_TRUE(prune(folder.path(), 2, 20).ok());
  for (const std::int64_t step : {10, 20, 30, 40, 45, 50, 60}) {
    const bool published = step == 20 || step == 40 || step == 50;
    EXPECT_EQ(fs::exists(index_path(folder.path(), step)), published) << step;
    EXPECT_EQ(fs::exists(folder.path() + "/step-" + std::to_string(step) + ".1"),
              published || step == 60)
        << step;
  }
  EXPECT_EQ(newest(), 50);
}

TEST(Index, WhatIsNotOneIsRefused) {
  using nlohmann::json;
  Index index;
  index.layout = small;
  const auto good = to_json(index);
  ASSERT_TRUE(index_from_json(good).ok());
  EXPECT_FALSE(index_from_json(3).ok());
  for (const auto& [key, ignored] : good.items()) {
    if (key == "version" || key == "shards") continue;
    auto without = good;
    without.erase(key);
    EXPECT_FALSE(index_from_json(without).ok()) << key;
  }
  for (const char* key : {"step", "layout", "states", "jobUid"}) {
    auto wrong = good;
    wrong[key] = json::array({1});
    EXPECT_FALSE(index_from_json(wrong).ok()) << key;
  }
}

}  // namespace
}  // namespace muster::checkpoint
