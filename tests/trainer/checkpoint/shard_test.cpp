#include "trainer/checkpoint/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/temporary_folder.h"
#include "tests/trainer/checkpoint/small_state.h"
#include "trainer/checkpoint/export.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const Layout written = layout_of({{"a", 1}, {"b", 15}, {"c", 16}, {"d", 17}, {"e", 1007}}, 3);

// The parts of all ranks of a world of that size, each loaded by itself.
std::vector<std::vector<float>> load_at(const std::string& folder, const Index& index,
                                        const Layout& layout, int world_size) {
  State all(0, layout.total);
  for (auto& buffer : all.data) std::fill(buffer.begin(), buffer.end(), -1.0F);
  for (int rank = 0; rank < world_size; ++rank) {
    const auto status = load(folder, index, layout, layout.total * rank / world_size,
                             layout.total * (rank + 1) / world_size, all.buffers());
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  return all.data;
}

TEST(Shard, LoadsAtAnyWorldSizeWithAnotherPaddingAndOrder) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(folder.path(), 7, written, 3).ok());
  const auto index = **newest_valid(folder.path(), "uid");
  const Layout others[] = {written,
                           layout_of({{"a", 1}, {"b", 15}, {"c", 16}, {"d", 17}, {"e", 1007}}),
                           layout_of({{"e", 1007}, {"c", 16}, {"a", 1}, {"d", 17}, {"b", 15}}, 13)};
  for (const auto& layout : others) {
    for (const int world_size : {1, 2, 3, 5}) {
      const auto loaded = load_at(folder.path(), index, layout, world_size);
      for (std::size_t b = 0; b < loaded.size(); ++b) {
        std::vector<float> expected(static_cast<std::size_t>(layout.total), -1.0F);
        for (const auto& p : layout.parameters) {
          const auto from = std::find_if(written.parameters.begin(), written.parameters.end(),
                                         [&](const auto& w) { return w.name == p.name; });
          for (std::int64_t i = 0; i < p.shape[0]; ++i) {
            expected[static_cast<std::size_t>(p.offset + i)] = value(7, b, from->offset + i);
          }
        }
        EXPECT_EQ(loaded[b], expected) << "padding must stay as it was";
      }
    }
  }
}

TEST(Shard, WhatDoesNotFitIsNamed) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(folder.path(), 7, written, 2).ok());
  const auto index = **newest_valid(folder.path(), "uid");
  const auto refusal = [&](const Layout& layout, const std::string& state) {
    State target(0, layout.total);
    target.names[1] = state;
    const auto status = load(folder.path(), index, layout, 0, layout.total, target.buffers());
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(refusal(written, "exp_avg"), "");
  EXPECT_THAT(refusal(layout_of({{"z", 1}}), "exp_avg"), HasSubstr("no parameter 'z'"));
  EXPECT_THAT(refusal(layout_of({{"b", 16}}), "exp_avg"), HasSubstr("'b' has another shape"));
  EXPECT_THAT(refusal(written, "momentum"), HasSubstr("no state 'momentum'"));
}

TEST(Shard, TheSnapshotIsOfTheMomentThoughTrainingGoesOn) {
  const TemporaryFolder folder;
  State state(3, written.total);
  Result<ShardRecord> record = Error{};
  {
    Writer writer(folder.path());
    const auto buffers = state.buffers();
    writer.snapshot(3, 1, 0, 0, written.total, buffers, [&](const auto& done) { record = done; });
    for (auto& buffer : state.data) std::fill(buffer.begin(), buffer.end(), 0.0F);
  }
  ASSERT_TRUE(record.ok());
  Index index;
  index.layout = written;
  index.shards = {*record};
  const auto loaded = load_at(folder.path(), index, written, 1);
  EXPECT_EQ(loaded[1][0], value(3, 1, 0));
}

// Files may not grow beyond `bytes` while it lives: what a full disk looks like to a writer.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(Shard, AFullDiskIsAnErrorThatNamesTheFileAndLosesNothing) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(folder.path(), 10, written, 2).ok());
  {
    const FullDisk full(2000);
    const auto index = write_shards(folder.path(), 20, written, 2);
    ASSERT_FALSE(index.ok());
    EXPECT_EQ(index.error().code, Code::io);
    EXPECT_THAT(index.error().message, HasSubstr(shard_path(20, 1, 1)));
    EXPECT_THAT(index.error().message, HasSubstr("File too large"));
  }
  EXPECT_FALSE(fs::exists(folder.path() + "/" + shard_path(20, 1, 0)));
  auto index = *write_shards(folder.path(), 30, written, 2);
  {
    const FullDisk full(100);
    const auto published = publish(folder.path(), index);
    ASSERT_FALSE(published.ok());
    EXPECT_THAT(published.error().message, HasSubstr("index-30.json"));
  }
  EXPECT_FALSE(fs::exists(index_path(folder.path(), 30)));
  EXPECT_EQ((**newest_valid(folder.path(), "uid")).step, 10);
  ASSERT_TRUE(publish(folder.path(), index).ok());
  EXPECT_EQ((**newest_valid(folder.path(), "uid")).step, 30);
}

TEST(Shard, AFolderThatIsAFileIsNamed) {
  const TemporaryFolder folder;
  const auto path = folder.path() + "/file";
  ASSERT_TRUE(replace_file(path, "x").ok());
  const auto index = write_shards(path, 1, written, 1);
  ASSERT_FALSE(index.ok());
  EXPECT_THAT(index.error().message, HasSubstr(path));
}

TEST(Export, IsThereWholeOldOrNew) {
  const TemporaryFolder folder;
  const std::vector<float> ones(64, 1), twos(64, 2);
  const TensorView old_one{"w", "F32", {64}, ones.data(), 256};
  const TensorView new_one{"w", "F32", {64}, twos.data(), 256};
  ASSERT_TRUE(write_export(folder.path(), {&old_one, 1}, {{"v", 1}}).ok());
  {
    const FullDisk full(200);
    const auto status = write_export(folder.path(), {&new_one, 1}, {{"v", 2}});
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message, HasSubstr("model.safetensors"));
  }
  const auto first = [&] {
    const auto file = *SafetensorsFile::open(folder.path() + "/model.safetensors");
    return *static_cast<const float*>(file->find("w")->data);
  };
  EXPECT_EQ(first(), 1);
  ASSERT_TRUE(write_export(folder.path(), {&new_one, 1}, {{"v", 2}}).ok());
  EXPECT_EQ(first(), 2);
  EXPECT_THAT(*read_file(folder.path() + "/config.json"), HasSubstr("\"v\": 2"));
  const auto files = std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator());
  EXPECT_EQ(files, 2) << "nothing else is left behind";
}

}  // namespace
}  // namespace muster::checkpoint
