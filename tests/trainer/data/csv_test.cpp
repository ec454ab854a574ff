#include "trainer/data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::data {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;

CsvTable table(std::string_view text) {
  auto parsed = parse_csv(text, "t.csv");
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? *parsed : CsvTable{};
}

std::string refusal(std::string_view text) {
  const auto parsed = parse_csv(text, "t.csv");
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.error().code, Code::invalid_data);
  return parsed.error().message;
}

TEST(Csv, ReadsRowsAndTheirLines) {
  const auto t = table("a,b\n1,2\n3,\n");
  EXPECT_THAT(t.header, ElementsAre("a", "b"));
  EXPECT_THAT(t.cells, ElementsAre("1", "2", "3", ""));
  EXPECT_THAT(t.lines, ElementsAre(2, 3));
  EXPECT_EQ(t.rows(), 2u);
  EXPECT_EQ(t.at(1, 0), "3");
}

TEST(Csv, QuotesAsInRfc4180) {
  EXPECT_THAT(table("a,b\n\"x,y\",\"say \"\"hi\"\"\"\n").cells, ElementsAre("x,y", "say \"hi\""));
  EXPECT_THAT(table("a,b\n\"\",\"\"\"\"\n").cells, ElementsAre("", "\""));
  EXPECT_THAT(table("\"a,1\",\"b\"\n1,2\n").header, ElementsAre("a,1", "b"));
  EXPECT_THAT(table("a,b\n x , y \n").cells, ElementsAre(" x ", " y "));
  EXPECT_THAT(table("a,b\nit's,#no comment\n").cells, ElementsAre("it's", "#no comment"));
}

TEST(Csv, LinesEndInThreeWays) {
  for (const auto* text :
       {"a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\r1,2\r3,4\r", "a,b\n1,2\r\n3,4",
        "a,b\n1,\"2\"\n3,\"4\"", "a,b\r\n1,\"2\"\r\n3,\"4\"\r", "a,b\r1,\"2\"\r3,\"4\"\r"}) {
    const auto t = table(text);
    EXPECT_THAT(t.header, ElementsAre("a", "b")) << text;
    EXPECT_THAT(t.cells, ElementsAre("1", "2", "3", "4")) << text;
    EXPECT_THAT(t.lines, ElementsAre(2, 3)) << text;
  }
}

TEST(Csv, QuotedLineEndsStayAndCount) {
  const auto t = table("a,b\n\"1\n2\",x\n\"3\r\n4\",y\n\"5\r6\",z\nw,w\n");
  EXPECT_THAT(t.cells, ElementsAre("1\n2", "x", "3\r\n4", "y", "5\r6", "z", "w", "w"));
  EXPECT_THAT(t.lines, ElementsAre(2, 4, 6, 8));
}

TEST(Csv, PassesOverTheByteOrderMark) {
  EXPECT_THAT(table("\xef\xbb\xbf"
                    "a,b\n1,2\n")
                  .header,
              ElementsAre("a", "b"));
  EXPECT_THAT(table("\xef\xbb\xbf\"a\",b\n1,2\n").header, ElementsAre("a", "b"));
}

TEST(Csv, PassesOverEmptyLinesButCountsThem) {
  const auto t = table("\n\r\na,b\n\n1,2\n\n\n3,4\n\n");
  EXPECT_THAT(t.header, ElementsAre("a", "b"));
  EXPECT_THAT(t.cells, ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(t.lines, ElementsAre(5, 8));
  // A quoted empty field is a row of its own.
  EXPECT_THAT(table("a\n\"\"\n\n1\n").cells, ElementsAre("", "1"));
}

TEST(Csv, NamesARowOfTheWrongLength) {
  const auto* rest = " fields, the header has 2; correct or remove the row";
  EXPECT_EQ(refusal("a,b\n1,2\n3\n"), "t.csv:3: the row has 1"s + rest);
  EXPECT_EQ(refusal("a,b\n1,2,3\n"), "t.csv:2: the row has 3"s + rest);
  EXPECT_EQ(refusal("a,b\n1,2,\n"), "t.csv:2: the row has 3"s + rest);
  EXPECT_EQ(refusal("a,b\n\"1\n\n1\",2\n\n3\n"), "t.csv:6: the row has 1"s + rest);
  EXPECT_EQ(refusal("a,b\r\n\"1\r\n1\",2\r\n3\r\n"), "t.csv:4: the row has 1"s + rest);
  // A row of several lines is named by its first.
  EXPECT_EQ(refusal("a,b\n\"1\n\n1\",2,3\n"), "t.csv:2: the row has 3"s + rest);
}

TEST(Csv, NamesAnUnclosedQuoteByWhereItOpens) {
  const auto* rest = "a quoted field is never closed; add the closing quote";
  EXPECT_EQ(refusal("a,b\n1,\"2\n3,4\n5,6\n"), "t.csv:2: "s + rest);
  EXPECT_EQ(refusal("a,b\n1,2\n3,\""), "t.csv:3: "s + rest);
  EXPECT_EQ(refusal("a,b\n1,\"x\"\""), "t.csv:2: "s + rest);
}

TEST(Csv, RefusesStrayQuotes) {
  EXPECT_EQ(refusal("a,b\n1,2\n5\",3\n"),
            "t.csv:3: a quote inside an unquoted field; quote the whole field and double the "
            "quotes in it");
  EXPECT_EQ(refusal("a,b\n \"1\",2\n"),
            "t.csv:2: a quote inside an unquoted field; quote the whole field and double the "
            "quotes in it");
  EXPECT_EQ(refusal("a,b\n\"x\n\"y,2\n"),
            "t.csv:3: text after a closing quote; double the quotes inside of a quoted field");
}

TEST(Csv, RefusesWhatIsNoText) {
  const auto* zero = "a zero byte; this is not a text file in UTF-8";
  EXPECT_EQ(refusal("a,b\n1,2\n3,\0\n"s), "t.csv:3: "s + zero);
  EXPECT_EQ(refusal("a,b\n1,\"x\n\0\"\n"s), "t.csv:3: "s + zero);
  EXPECT_EQ(refusal("\xff\xfe\x61\0,\0\x62\0\n\0"s), "t.csv:1: "s + zero);  // UTF-16
  EXPECT_EQ(refusal("a,b\n1,Z\xfcrich\n"),
            "t.csv:2: field 2 is not UTF-8; save the file as UTF-8");  // Latin-1
  EXPECT_THAT(table("\xc3\xa4,b\n1,Z\xc3\xbcrich\n").cells, ElementsAre("1", "Z\xc3\xbcrich"));
}

TEST(Csv, RefusesADoubledOrEmptyColumnName) {
  EXPECT_EQ(refusal("a,b,a\n1,2,3\n"), "t.csv:1: the column 'a' stands twice in the header");
  EXPECT_EQ(refusal("\n\na,b,a\n1,2,3\n"), "t.csv:3: the column 'a' stands twice in the header");
  const auto* nameless = " of the header has no name; name it, or remove the column";
  EXPECT_EQ(refusal(",a\n0,1\n"), "t.csv:1: column 1"s + nameless);
  EXPECT_EQ(refusal("a,b,\n1,2,\n"), "t.csv:1: column 3"s + nameless);
  EXPECT_EQ(refusal("a,\"\"\n1,2\n"), "t.csv:1: column 2"s + nameless);
}

TEST(Csv, RefusesAFileWithoutRows) {
  const auto* none = "t.csv has no rows below its header";
  for (const auto* text : {"", "\n\n", "\xef\xbb\xbf", "a,b", "a,b\n", "a,b\r\n\r\n"}) {
    EXPECT_EQ(refusal(text), none) << '"' << text << '"';
  }
}

}  // namespace
}  // namespace muster::data
