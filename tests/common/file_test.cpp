#include "common/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/temporary_folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(File, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const auto path = folder.path() + "/a";
  const std::string bytes("a\0b\xff", 4);
  ASSERT_TRUE(replace_file(path, bytes).ok());
  EXPECT_EQ(*read_file(path), bytes);
  ASSERT_TRUE(replace_file(path, "").ok());
  EXPECT_EQ(*read_file(path), "");
}

TEST(File, ErrorsNameThePathAndTheCause) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_file(folder.path() + "/none").error().message,
              HasSubstr(folder.path() + "/none: No such file"));
  EXPECT_THAT(read_file(folder.path()).error().message, HasSubstr("it is a folder"));
  EXPECT_THAT(replace_file(folder.path() + "/none/a", "x").error().message, HasSubstr("/none/a"));
  ASSERT_TRUE(replace_file(folder.path() + "/file", "12345").ok());
  EXPECT_THAT(read_file(folder.path() + "/file", 4).error().message, HasSubstr("limit of 4 bytes"));
  EXPECT_TRUE(read_file(folder.path() + "/file", 5).ok());
  EXPECT_THAT(make_folder(folder.path() + "/file/inner").error().message, HasSubstr("/file/inner"));
}

TEST(File, AFolderIsMadeWithItsParents) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folder(folder.path() + "/a/b/c").ok());
  ASSERT_TRUE(make_folder(folder.path() + "/a/b/c").ok());
  EXPECT_TRUE(fs::is_directory(folder.path() + "/a/b/c"));
}

TEST(File, AReaderSeesTheOldOrTheNewContentWhole) {
  const TemporaryFolder folder;
  const auto path = folder.path() + "/a";
  const std::string old_one(100'000, 'o'), new_one(100'000, 'n');
  ASSERT_TRUE(replace_file(path, old_one).ok());
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(replace_file(path, i % 2 ? old_one : new_one).ok());
    done = true;
  });
  while (!done) {
    const auto content = *read_file(path);
    ASSERT_TRUE(content == old_one || content == new_one);
  }
  writer.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1)
      << "nothing is left beside it";
}

}  // namespace
}  // namespace muster
