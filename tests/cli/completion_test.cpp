#include "cli/completion.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/temporary_folder.h"

namespace muster::cli {
namespace {

std::string script(const std::string& shell) {
  CLI::App app("test", "muster");
  std::string value;
  app.add_subcommand("run", "train it")->add_option("--workers", value);
  app.add_subcommand("completion", "print a script");
  return completion_script(app, shell);
}

TEST(Completion, NamesEveryCommandAndOption) {
  for (const auto* shell : {"bash", "zsh", "fish"}) {
    EXPECT_NE(script(shell).find("run"), std::string::npos) << shell;
    EXPECT_NE(script(shell).find("workers"), std::string::npos) << shell;
  }
}

TEST(Completion, WorksInBash) {
  const TemporaryFolder folder;
  folder.write("completion", script("bash"));
  folder.write_program("try", "source " + folder.file("completion") +
                                  "\nCOMP_WORDS=(muster ru) COMP_CWORD=1; _muster"
                                  "\n[ \"${COMPREPLY[*]}\" = run ] || exit 1"
                                  "\nCOMP_WORDS=(muster run --wo) COMP_CWORD=2; _muster"
                                  "\n[ \"${COMPREPLY[*]}\" = --workers ] || exit 2\n");
  EXPECT_EQ(std::system(folder.file("try").c_str()), 0);
}

}  // namespace
}  // namespace muster::cli
