// Waiting for several calls at once, with calls that the test completes.
#include "tutti/work.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

#include "communicator/pending.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

using std::chrono::nanoseconds;

/// State and result of each call, by name.
struct Calls {
  std::map<std::string, int> looks_until_done;
  std::map<std::string, std::string> errors;
  std::map<std::string, int> looks;
  std::string ended;  ///< names in the order of completion
};

class FakePending final : public Pending {
 public:
  FakePending(Calls& calls, std::string name) : calls_(calls), name_(std::move(name)) {}

  bool wait_for(nanoseconds) override {
    if (++calls_.looks[name_] <= calls_.looks_until_done[name_]) return false;
    calls_.ended += name_;
    if (const auto error = calls_.errors.find(name_); error != calls_.errors.end()) {
      throw Error(ErrorCode::timeout, error->second);
    }
    return true;
  }
  void order_before(void*) override {}

 private:
  Calls& calls_;
  std::string name_;
};

Work work(Calls& calls, const std::string& name) {
  return Work(std::make_unique<FakePending>(calls, name));
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.sentence();
  }
  return "none";
}

}  // namespace

TEST_CASE("a work is active until its end has been seen") {
  Calls calls{.looks_until_done = {{"a", 1}}, .errors = {{"b", "b failed"}}};
  CHECK(!Work().is_active());
  auto a = work(calls, "a");
  CHECK(a.is_active());
  CHECK(!a.test());
  CHECK(a.is_active());
  CHECK(a.test());
  CHECK(!a.is_active());
  auto b = work(calls, "b");
  CHECK(error_of([&] { b.wait(); }) == "b failed");
  CHECK(!b.is_active());
}

TEST_CASE("wait_all waits for all, whatever their order") {
  Calls calls{.looks_until_done = {{"a", 5}, {"b", 0}, {"c", 2}}};
  std::vector<Work> works;
  for (const auto* name : {"a", "b", "c"}) works.push_back(work(calls, name));
  works.emplace_back();
  wait_all(works);
  for (const auto& one : works) CHECK(!one.is_active());
  CHECK(calls.ended.size() == 3);
}

TEST_CASE("wait_all throws the first error after all have ended") {
  Calls calls{.looks_until_done = {{"a", 3}, {"d", 3}},
              .errors = {{"b", "b failed"}, {"c", "c failed"}}};
  std::vector<Work> works;
  for (const auto* name : {"a", "b", "c", "d"}) works.push_back(work(calls, name));
  CHECK(error_of([&] { wait_all(works); }) == "b failed");
  CHECK(calls.ended == "abcd");
  for (const auto& one : works) CHECK(!one.is_active());
  CHECK(error_of([&] { wait_all(works); }) == "none");
}

TEST_CASE("wait_any gives each call once, the one that is done first") {
  Calls calls{.looks_until_done = {{"a", 400}, {"b", 8}, {"c", 20}}};
  std::array<Work, 4> works{work(calls, "a"), Work(), work(calls, "b"), work(calls, "c")};
  CHECK(wait_any(works) == 2);
  CHECK(!works[2].is_active());
  CHECK(works[0].is_active());
  CHECK(wait_any(works) == 3);
  CHECK(wait_any(works) == 0);
  CHECK(wait_any(works) == works.size());
  CHECK(wait_any({}) == 0);
}

TEST_CASE("wait_any throws the error of a call that fails, and the others go on") {
  Calls calls{.looks_until_done = {{"a", 10}, {"b", 3}}, .errors = {{"b", "b failed"}}};
  std::array<Work, 2> works{work(calls, "a"), work(calls, "b")};
  CHECK(error_of([&] { static_cast<void>(wait_any(works)); }) == "b failed");
  CHECK(works[0].is_active());
  CHECK(!works[1].is_active());
  CHECK(wait_any(works) == 0);
}

}  // namespace tutti::test
