#include "cli/documents.h"

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace muster::cli {
namespace {

TEST(ReadJobs, NumbersSeveralDocumentsAndKnowsTheirFolder) {
  const TemporaryFolder folder;
  folder.write("jobs.yaml", "kind: TrainingJob\n---\nkind: TrainingJob\n");
  const auto documents = read_jobs(folder.file("jobs.yaml"));
  ASSERT_TRUE(documents.ok()) << documents.error().message;
  ASSERT_EQ(documents->size(), 2u);
  EXPECT_EQ(documents->at(1).source, folder.file("jobs.yaml") + ", document 2");
  EXPECT_EQ(documents->at(1).folder, folder.path());
}

TEST(ReadJobs, OfAnAbsentOrEmptyFileIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  folder.write("empty.yaml", "");
  for (const auto* name : {"absent.yaml", "empty.yaml"}) {
    const auto documents = read_jobs(folder.file(name));
    ASSERT_FALSE(documents.ok()) << name;
    EXPECT_NE(documents.error().message.find(name), std::string::npos);
  }
}

TEST(DataPaths, StartAtTheFolderOfTheJob) {
  job::TrainingJob job;
  job.spec.data.train = {"data/a.csv", "/absolute/b.csv", "../c-*.csv"};
  job.spec.data.validation = {"v.csv"};
  resolve_data_paths(job, "/jobs/first");
  EXPECT_EQ(job.spec.data.train, (std::vector<std::string>{"/jobs/first/data/a.csv",
                                                           "/absolute/b.csv", "/jobs/c-*.csv"}));
  EXPECT_EQ(job.spec.data.validation, (std::vector<std::string>{"/jobs/first/v.csv"}));
  EXPECT_EQ(job.spec.data.tokenizer, "");
}

}  // namespace
}  // namespace muster::cli
