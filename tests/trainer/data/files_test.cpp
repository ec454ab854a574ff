#include "trainer/data/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/temporary_folder.h"
#include "trainer/data/dataset.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;

std::string refusal(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (file.ok()) return "accepted";
  EXPECT_EQ(file.error().code, Code::invalid_data);
  return file.error().message;
}

TEST(Files, AreSortedWithinEachPattern) {
  const TemporaryFolder folder;
  const auto b = folder.write("b.csv", "x"), a = folder.write("a.csv", "x");
  const auto c = folder.write("c.txt", "x");
  const auto files = expand({folder.file("*.txt"), folder.file("*.csv"), a});
  ASSERT_TRUE(files.ok()) << files.error().message;
  EXPECT_THAT(*files, ElementsAre(c, a, b, a));
  EXPECT_TRUE(expand({})->empty());
}

TEST(Files, ANameWithBracketsIsThatFile) {
  const TemporaryFolder folder;
  const auto odd = folder.write("a[1].csv", "x"), one = folder.write("a1.csv", "x");
  EXPECT_THAT(*expand({odd}), ElementsAre(odd));
  EXPECT_THAT(*expand({folder.file("a[0-9].csv")}), ElementsAre(one));
}

TEST(Files, APatternWithoutAFileIsAnError) {
  const TemporaryFolder folder;
  const auto there = folder.write("a.csv", "x");
  for (const auto* name : {"*.tsv", "missing.csv", "missing/*.csv"}) {
    const auto files = expand({there, folder.file(name)});
    ASSERT_FALSE(files.ok()) << name;
    EXPECT_EQ(files.error().code, Code::invalid_data);
    EXPECT_EQ(files.error().message,
              "no file matches " + folder.file(name) +
                  "; check the path (a relative one starts at the job's folder) and that it can "
                  "be read");
  }
}

TEST(Files, MapsAllBytes) {
  const TemporaryFolder folder;
  std::string bytes("a\0b", 3);
  bytes.append(100000, 'c');
  const auto path = folder.write("a", bytes);
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ((*file)->bytes(), bytes);
  EXPECT_EQ((*file)->path(), path);
}

TEST(Files, RefusesWhatCannotBeMapped) {
  const TemporaryFolder folder;
  const auto missing = folder.file("missing"), empty = folder.write("empty", "");
  EXPECT_EQ(refusal(missing), "cannot read " + missing + ": No such file or directory");
  EXPECT_EQ(refusal(empty), empty + " is empty: it has no samples");
  EXPECT_EQ(refusal(folder.file("")), "cannot read " + folder.file("") + ": it is not a file");
}

TEST(Files, APipeIsRefusedWithoutWaitingForAWriter) {
  const TemporaryFolder folder;
  const auto pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal(pipe), "cannot read " + pipe + ": it is not a file");
}

TEST(Files, NamesTheFileThatMayNotBeRead) {
  const TemporaryFolder folder;
  const auto secret = folder.write("secret", "x");
  ASSERT_EQ(::chmod(secret.c_str(), 0), 0);
  const bool root = ::geteuid() == 0;  // may read everything, so be somebody else
  ASSERT_EQ(root ? ::seteuid(65534) : 0, 0);
  const auto message = refusal(secret);
  ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
  EXPECT_EQ(message, "cannot read " + secret + ": Permission denied");
}

TEST(Open, SaysWhichFormatsThereAre) {
  job::Data data;
  data.format = "parquet";
  const auto sets = open(data, 0);
  ASSERT_FALSE(sets.ok());
  EXPECT_EQ(sets.error().code, Code::unsupported);
  EXPECT_EQ(sets.error().message,
            "data of format parquet comes with a later version; csv, text and tokens are here");
}

TEST(Open, TakesTheReaderOfTheFormat) {
  const TemporaryFolder folder;
  job::Data data;
  data.format = "csv";
  data.train = {folder.write("a", "x,y\n1,a\n2,b\n")};
  EXPECT_EQ(open(data, 0)->train->shape().task, Task::classification);
  data.format = "text";
  data.sequence_length = 2;
  EXPECT_EQ(open(data, 0)->train->shape().vocabulary_size, 256);
  data.format = "tokens";
  EXPECT_EQ(open(data, 0)->train->shape().vocabulary_size, 0x2c78 + 1);  // "x,"
}

}  // namespace
}  // namespace muster::data
