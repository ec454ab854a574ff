#include "common/result.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/exit_code.h"

namespace muster {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{Code::invalid_data, std::to_string(n) + " is odd"};
  return n / 2;
}

Result<int> quarter(int n) {
  MUSTER_TRY(once, half(n));
  MUSTER_TRY(twice, half(once));
  return twice;
}

Status must_be_even(int n) {
  MUSTER_CHECK_OK(half(n));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_TRUE(must_be_even(2).ok());
  EXPECT_EQ(must_be_even(3).error().code, Code::invalid_data);
}

TEST(Result, AValueCanBeMovedOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(3));
  const auto taken = *std::move(result);
  EXPECT_EQ(*taken, 3);
}

TEST(Result, AnErrorSaysWhatWasBeingDone) {
  const Error error{Code::io, "no such file"};
  EXPECT_EQ(error.while_doing("reading x").message, "reading x: no such file");
  EXPECT_EQ(error.while_doing("reading x").code, Code::io);
}

TEST(ExitCode, IsTheContractWithFailurePolicies) {
  const auto code = [](Code c) { return exit_code(Error{c, ""}); };
  EXPECT_EQ(code(Code::invalid_job), 2);
  EXPECT_EQ(code(Code::unsupported), 2);
  EXPECT_EQ(code(Code::invalid_data), 3);
  EXPECT_EQ(code(Code::diverged), 4);
  for (const auto c : {Code::io, Code::port_in_use, Code::peer_lost, Code::internal}) {
    EXPECT_EQ(code(c), 1);
  }
}

}  // namespace
}  // namespace muster
