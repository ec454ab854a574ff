#include "cli/progress.h"

#include <gtest/gtest.h>

#include <cmath>

namespace muster::cli {
namespace {

Progress half_way() {
  Progress progress;
  progress.step = 50;
  progress.total_steps = 100;
  progress.loss = 0.69315;
  progress.samples_per_second = 51.23;
  return progress;
}

// What a view wrote to its file.
class Written {
 public:
  Written() : file_(std::tmpfile()) {}
  ~Written() { std::fclose(file_); }
  std::FILE* file() const { return file_; }
  std::string text() const {
    std::rewind(file_);
    std::string text(65536, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }

 private:
  std::FILE* file_;
};

TEST(State, IsReadFromTheProgressObject) {
  const auto progress = progress_from_state(
      {{"phase", "Running"},
       {"worldSize", 2},
       {"generation", {{"epoch", 2}, {"n", 3}}},
       {"progress",
        {{"step", 7}, {"totalSteps", 20}, {"loss", "2.31"}, {"samplesPerSecond", 512.5}}}});
  EXPECT_EQ(progress.phase, "Running");
  EXPECT_EQ(progress.step, 7);
  EXPECT_EQ(progress.total_steps, 20);
  EXPECT_DOUBLE_EQ(progress.loss, 2.31);
  EXPECT_DOUBLE_EQ(progress.samples_per_second, 512.5);
  EXPECT_TRUE(std::isnan(progress.validation_loss));
  EXPECT_EQ(progress.world_size, 2);
  EXPECT_EQ(progress.generation, 3);
}

TEST(State, OfAnotherShapeIsHarmless) {
  for (const auto& state :
       {nlohmann::json(), nlohmann::json::array({1}), nlohmann::json{{"progress", "none"}},
        nlohmann::json{{"step", -4}}, nlohmann::json{{"step", "many"}, {"loss", nullptr}}}) {
    EXPECT_EQ(progress_from_state(state).step, 0) << state;
  }
}

TEST(SecondsLeft, AreCountedFromWhereThisRunBegan) {
  EXPECT_EQ(seconds_left(half_way(), 50, 10), std::nullopt) << "no step of this run yet";
  EXPECT_DOUBLE_EQ(*seconds_left(half_way(), 0, 10), 10);
  EXPECT_DOUBLE_EQ(*seconds_left(half_way(), 40, 10), 50);
  auto unknown_total = half_way();
  unknown_total.total_steps = 0;
  EXPECT_EQ(seconds_left(unknown_total, 0, 10), std::nullopt);
}

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(7.4), "7 s");
  EXPECT_EQ(format_duration(59.6), "1:00 min");
  EXPECT_EQ(format_duration(185), "3:05 min");
  EXPECT_EQ(format_duration(7200), "2:00 h");
}

TEST(Format, NumbersHaveThreeDigits) {
  EXPECT_EQ(format_number(0.69315), "0.693");
  EXPECT_EQ(format_number(2.345), "2.35");
  EXPECT_EQ(format_number(51.23), "51.2");
  EXPECT_EQ(format_number(51234.4), "51234");
  EXPECT_EQ(format_number(std::nan("")), "-");
}

TEST(Bar, FillsWithTheStepsAndNeverWraps) {
  const auto bar = format_bar(half_way(), 7.0, 100);
  EXPECT_NE(bar.find("50%  step 50/100  loss 0.693  51.2 samples/s  ETA 7 s"), std::string::npos)
      << bar;
  EXPECT_EQ(std::count(bar.begin(), bar.end(), '#'), std::count(bar.begin(), bar.end(), '-'));
  for (const int width : {1, 10, 40, 80, 200}) {
    EXPECT_LT(int(format_bar(half_way(), 7.0, width).size()), std::max(width, 2));
  }
}

TEST(Bar, OfAnUnknownTotalShowsTheStepAlone) {
  auto progress = half_way();
  progress.total_steps = 0;
  EXPECT_NE(format_bar(progress, std::nullopt, 100).find("step 50  loss"), std::string::npos);
}

TEST(Json, LeavesOutWhatIsNotFinite) {
  auto progress = half_way();
  progress.loss = std::numeric_limits<double>::infinity();
  const auto json = to_json(progress, std::nullopt);
  EXPECT_EQ(json.at("step"), 50);
  EXPECT_FALSE(json.contains("loss"));
  EXPECT_FALSE(json.contains("secondsLeft"));
}

TEST(View, WritesALineEveryFewSecondsOnly) {
  const Written written;
  ProgressView view(Style::lines, written.file(), 80);
  auto progress = half_way();
  for (int tenth = 0; tenth <= 60; ++tenth) {
    progress.step = 10 + tenth;
    view.show(progress, tenth / 10.0);
  }
  const auto text = written.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_NE(text.find("step 60/100, loss 0.693"), std::string::npos) << text;
}

TEST(View, WritesOneJsonObjectALine) {
  const Written written;
  ProgressView view(Style::json, written.file(), 80);
  view.show(half_way(), 1);
  view.note("a \"quoted\" \xff note");
  std::istringstream lines(written.text());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(nlohmann::json::parse(line).contains("event")) << line;
  }
  EXPECT_EQ(count, 2);
}

TEST(View, ANoteDoesNotRunIntoTheBar) {
  const Written written;
  ProgressView view(Style::bar, written.file(), 80);
  view.show(half_way(), 1);
  view.note("worker-1 ended");
  EXPECT_NE(written.text().find("\r\033[Kworker-1 ended\n"), std::string::npos);
}

TEST(View, ShowsNothingBeforeTheFirstStep) {
  const Written written;
  ProgressView view(Style::lines, written.file(), 80);
  view.show(Progress{}, 1);
  EXPECT_EQ(written.text(), "");
}

TEST(View, MeasuresThePaceAnewAfterAFallBackToACheckpoint) {
  const Written written;
  ProgressView view(Style::json, written.file(), 80);
  auto progress = half_way();
  view.show(progress, 0);  // step 50
  progress.step = 20;
  view.show(progress, 100);
  progress.step = 30;
  view.show(progress, 110);  // one step a second since the restart
  const auto text = written.text();
  const auto last = text.substr(text.rfind('\n', text.size() - 2) + 1);
  EXPECT_DOUBLE_EQ(nlohmann::json::parse(last).at("secondsLeft").get<double>(), 70);
}

}  // namespace
}  // namespace muster::cli
