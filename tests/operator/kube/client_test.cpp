#include "operator/kube/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "operator/kube/lease.h"

namespace muster::kube {
namespace {

using ::testing::HasSubstr;

ApiError error(int status, std::optional<double> retry_after = {}) {
  ApiError e({Code::protocol, ""}, status);
  e.retry_after = retry_after;
  return e;
}

TEST(RetryDelay, AsTheServerAsks) {
  EXPECT_EQ(retry_delay("POST", error(429, 3), 0), 3);
  EXPECT_EQ(retry_delay("POST", error(429), 0), 1);
  EXPECT_EQ(retry_delay("POST", error(503, 2), 4), 2);
  EXPECT_EQ(retry_delay("POST", error(503), 0), std::nullopt) << "it may have been carried out";
  EXPECT_EQ(retry_delay("POST", error(429, 3), 10), std::nullopt) << "not for ever";
}

TEST(RetryDelay, ReadsSurviveABrokenConnectionAndWritesDoNot) {
  EXPECT_TRUE(retry_delay("GET", error(0), 0));
  EXPECT_LT(*retry_delay("GET", error(0), 0), *retry_delay("GET", error(0), 2));
  EXPECT_EQ(retry_delay("GET", error(0), 3), std::nullopt);
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE"})
    EXPECT_EQ(retry_delay(method, error(0), 0), std::nullopt);
}

TEST(RetryDelay, WhatIsWrongStaysWrong) {
  for (const int status : {400, 401, 403, 404, 409, 410, 422})
    EXPECT_EQ(retry_delay("GET", error(status), 0), std::nullopt);
  ApiError aborted({Code::aborted, ""});
  EXPECT_EQ(retry_delay("GET", aborted, 0), std::nullopt);
}

TEST(ErrorOf, TakesTheServersWords) {
  const auto e = error_of(
      {409,
       R"({"kind": "Status", "reason": "AlreadyExists", "message": "pods \"a\" already exists"})",
       {}},
      "creating a");
  ASSERT_TRUE(e);
  EXPECT_TRUE(e->already_exists());
  EXPECT_FALSE(e->conflict());
  EXPECT_THAT(e->message, HasSubstr("pods \"a\" already exists"));
  EXPECT_THAT(e->message, HasSubstr("creating a"));
}

TEST(ErrorOf, ReadsHowLongToWait) {
  const auto e =
      error_of({429, R"({"kind": "Status", "details": {"retryAfterSeconds": 7}})", {}}, "x");
  EXPECT_EQ(e->retry_after, 7);
  EXPECT_EQ(error_of({429, "{}", 2}, "x")->retry_after, 2) << "the header";
}

TEST(ErrorOf, SurvivesABodyThatIsNoStatus) {
  EXPECT_THAT(error_of({502, "<html>Bad Gateway</html>", {}}, "x")->message,
              HasSubstr("Bad Gateway"));
  EXPECT_THAT(error_of({500, "", {}}, "x")->message, HasSubstr("HTTP 500"));
  EXPECT_THAT(
      error_of({500, R"({"kind": "Status", "details": 3, "message": 4})", {}}, "x")->message,
      HasSubstr("x"));
  EXPECT_FALSE(error_of({201, "", {}}, "x"));
}

// Answers in turn; what was asked is kept.
class Scripted : public HttpTransport {
 public:
  Result<HttpResponse> send(const HttpRequest& request, double) override {
    asked.push_back(request);
    if (answers.empty()) return Error{Code::io, "no more answers"};
    auto next = answers.front();
    answers.pop_front();
    return next;
  }
  Result<HttpResponse> stream(const HttpRequest&, double,
                              const std::function<bool(std::string_view)>&) override {
    return Error{Code::io, "no streams"};
  }
  void cancel() override {}

  std::deque<Result<HttpResponse>> answers;
  std::vector<HttpRequest> asked;
};

TEST(Client, TriesAgainAsItIsTold) {
  Scripted server;
  server.answers = {HttpResponse{429, "{}", 0.0}, HttpResponse{429, "{}", 0.0},
                    HttpResponse{201, R"({"metadata": {"name": "a"}})", {}}};
  Client client(server, {});
  EXPECT_TRUE(client.create(pods, "default", {{"metadata", {{"name", "a"}}}}).ok());
  EXPECT_EQ(server.asked.size(), 3u);
}

TEST(Client, GivesUpInTheEnd) {
  Scripted server;
  for (int i = 0; i < 50; ++i) server.answers.push_back(HttpResponse{429, "{}", 0.0});
  Client client(server, {});
  EXPECT_FALSE(client.create(pods, "default", json::object()).ok());
  EXPECT_EQ(server.asked.size(), 11u);
}

TEST(Client, DoesNotRepeatAWriteWhoseConnectionBroke) {
  Scripted server;
  server.answers = {Error{Code::io, "connection reset"}, HttpResponse{201, "{}", {}}};
  Client client(server, {});
  const auto created = client.create(pods, "default", json::object());
  ASSERT_FALSE(created.ok());
  EXPECT_EQ(created.error().status, 0);
  EXPECT_EQ(server.asked.size(), 1u);
}

TEST(Client, DropsManagedFieldsAndNamesPaths) {
  Scripted server;
  server.answers = {HttpResponse{200, R"({"metadata": {"name": "a", "managedFields": [1]}})", {}}};
  Client client(server, {});
  const auto pod = client.get(pods, "ns", "a");
  ASSERT_TRUE(pod.ok());
  EXPECT_FALSE((*pod)["metadata"].contains("managedFields"));
  EXPECT_EQ(server.asked[0].path, "/api/v1/namespaces/ns/pods/a");
  const ResourceType type{"muster.dev", "v1alpha1", "trainingjobs"};
  EXPECT_EQ(type.path("", "", ""), "/apis/muster.dev/v1alpha1/trainingjobs");
  EXPECT_EQ(type.path("ns", "a", "status"),
            "/apis/muster.dev/v1alpha1/namespaces/ns/trainingjobs/a/status");
}

TEST(Client, DeletesOnlyTheObjectThatItMeans) {
  Scripted server;
  server.answers = {HttpResponse{200, "{}", {}}};
  Client client(server, {});
  EXPECT_TRUE(client.remove(pods, "ns", "a", {.uid = "u-1", .grace_seconds = 5}).ok());
  const auto body = json::parse(server.asked[0].body);
  EXPECT_EQ(body["preconditions"]["uid"], "u-1");
  EXPECT_EQ(body["gracePeriodSeconds"], 5);
}

TEST(Client, WaitsNoMoreOnceItIsStopped) {
  Scripted server;
  server.answers = {HttpResponse{429, "{}", 3600.0}};
  Client client(server, {});
  client.stop();
  EXPECT_EQ(client.get(pods, "ns", "a").error().code, Code::aborted);
}

TEST(Lease, IsTakenWhenItIsFreeOrOver) {
  EXPECT_EQ(next_lease_move({}, 0, "me", 0), LeaseMove::acquire);
  const LeaseRecord others{"other", 15, "t", 0, "t"};
  EXPECT_EQ(next_lease_move(others, 100, "me", 114.9), LeaseMove::wait);
  EXPECT_EQ(next_lease_move(others, 100, "me", 115), LeaseMove::acquire);
  EXPECT_EQ(next_lease_move({"me", 15, "t", 0, "t"}, 100, "me", 500), LeaseMove::renew);
}

TEST(Lease, OneThatWasGivenBackNeedsNoWaiting) {
  EXPECT_EQ(next_lease_move({"", 1, "t", 3, "t"}, 100, "me", 100), LeaseMove::acquire);
}

}  // namespace
}  // namespace muster::kube
