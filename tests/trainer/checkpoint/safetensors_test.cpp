#include "trainer/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "common/crypto.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/checkpoint/small_state.h"

namespace muster::checkpoint {
namespace {

using ::testing::HasSubstr;

// A file's bytes from a header and the number of data bytes behind it.
std::string file_of(const std::string& header, std::size_t data, std::uint64_t length = 0) {
  if (length == 0) length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, 'd');
}

Result<std::vector<TensorView>> parse(const std::string& bytes) {
  return SafetensorsFile::parse(std::as_bytes(std::span(bytes)), nullptr);
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const auto path = folder.path() + "/a.safetensors";
  const std::vector<float> numbers{1, 2, 3, 4, 5, 6};
  const std::vector<std::uint8_t> bytes{7, 8, 9};
  const std::vector<TensorView> tensors{{"n", "F32", {2, 3}, numbers.data(), 24},
                                        {"empty", "I64", {0}, nullptr, 0},
                                        {"b \"\u00fc", "U8", {3}, bytes.data(), 3}};
  const auto written = write_safetensors(path, tensors, {{"k", "v"}});
  ASSERT_TRUE(written.ok());
  const auto content = read_file(path);
  EXPECT_EQ(written->bytes, content->size());
  EXPECT_EQ(written->sha256, crypto::sha256_hex(*content));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ((*file)->metadata().at("k"), "v");
  ASSERT_EQ((*file)->tensors().size(), 3u);
  const auto* n = (*file)->find("n");
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(n->data, numbers.data(), 24), 0);
  EXPECT_EQ(std::memcmp((*file)->find("b \"\u00fc")->data, bytes.data(), 3), 0);
  EXPECT_EQ((*file)->find("empty")->bytes, 0u);
  EXPECT_EQ((*file)->find("other"), nullptr);
}

TEST(Safetensors, TheSmallestValidFilesAreAccepted) {
  EXPECT_TRUE(parse(file_of("{}", 0)).ok());
  EXPECT_TRUE(parse(file_of(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4)).ok());
  EXPECT_TRUE(parse(file_of(R"({"a":{"dtype":"U8","shape":[2,0],"data_offsets":[0,0]}})", 0)).ok());
}

struct Lie {
  const char* what;
  std::string bytes;
};

class Lying : public ::testing::TestWithParam<Lie> {};

TEST_P(Lying, HeadersAreRefused) {
  const auto tensors = parse(GetParam().bytes);
  ASSERT_FALSE(tensors.ok()) << GetParam().what;
  EXPECT_EQ(tensors.error().code, Code::protocol);
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

const std::string good = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)";

INSTANTIATE_TEST_SUITE_P(
    All, Lying,
    ::testing::Values(
        Lie{"empty", ""}, Lie{"seven bytes", std::string(7, '\0')},
        Lie{"eight bytes that claim more", file_of("", 0, 100)},
        Lie{"a length beyond the file", file_of("{}", 0, 3)},
        Lie{"a length beyond the cap", file_of("{}", 0, 100'000'001)},
        Lie{"the largest length", file_of("{}", 0, ~std::uint64_t{0})},
        Lie{"no JSON", file_of("{nope", 0)}, Lie{"no object", file_of("[]", 0)},
        Lie{"not UTF-8", file_of("{\"\xff\":1}", 0)},
        Lie{"deep", file_of(R"({"a":[[[[[[[[[[[]]]]]]]]]]]})", 0)},
        Lie{"an entry that is a number", file_of(R"({"a":3})", 0)},
        Lie{"an unknown dtype", file_of(entry("F99", "[1]", "[0,4]"), 4)},
        Lie{"a dtype that is no text",
            file_of(R"({"a":{"dtype":4,"shape":[],"data_offsets":[0,4]}})", 4)},
        Lie{"an end beyond the file", file_of(entry("F32", "[2]", "[0,8]"), 4)},
        Lie{"an end before the begin", file_of(entry("F32", "[1]", "[4,0]"), 4)},
        Lie{"a negative offset", file_of(entry("F32", "[1]", "[-4,0]"), 4)},
        Lie{"one offset", file_of(entry("F32", "[1]", "[0]"), 4)},
        Lie{"a shape that is too large", file_of(entry("F32", "[2]", "[0,4]"), 4)},
        Lie{"a negative dimension", file_of(entry("F32", "[-1]", "[0,4]"), 4)},
        Lie{"a fractional dimension", file_of(entry("F32", "[1.5]", "[0,4]"), 4)},
        Lie{"a product that overflows",
            file_of(entry("F32", "[4611686018427387904,4611686018427387904]", "[0,0]"), 0)},
        Lie{"overlapping tensors",
            file_of(good + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4)},
        Lie{"a gap", file_of(good + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}})", 9)},
        Lie{"bytes behind the last", file_of(entry("F32", "[1]", "[0,4]"), 5)},
        Lie{"metadata that is no text", file_of(R"({"__metadata__":{"a":1}})", 0)}));

TEST(Safetensors, AMissingFileAndAFolderAreNamed) {
  const TemporaryFolder folder;
  for (const auto& path : {folder.path() + "/none", folder.path()}) {
    const auto file = SafetensorsFile::open(path);
    ASSERT_FALSE(file.ok());
    EXPECT_THAT(file.error().message, HasSubstr(path));
  }
}

}  // namespace
}  // namespace muster::checkpoint
