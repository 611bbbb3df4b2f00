// Output of `tutti trace` for the ranks' records.
#include "trace.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::app {
namespace {

std::string record(int rank, int sequence, const std::string& end, const std::string& more = "") {
  return fmt::format(
      R"({{"schema": 1, "rank": {}, "size": 3, "host": "node1", "pid": {}, "written_us": 5000000.0,
          "reason": "requested by SIGUSR1", "communicators": [{{"communicator": 0, "ranks": [0, 1, 2],
          "sequence": {}, "calls": [{{"sequence": {}, "operation": "barrier", "call": "barrier",
          "bytes": 0, "begin_us": 1000000.0, "end_us": {}{}}}]}}]}})",
      rank, 100 + rank, sequence, sequence, end, more);
}

}  // namespace

TEST_CASE("the table has the call of each rank, and lists ranks that are behind or missing") {
  const auto table = trace_table({parse_record(record(2, 7, "null", R"(, "awaited": [0])"), "b"),
                                  parse_record(record(0, 5, "2000000.0"), "a")});
  CAPTURE(table);
  const auto has = [&](const std::string& part) { return table.find(part) != std::string::npos; };
  CHECK(
      has("   0  node1       100         5       2  outside any call for 3.000 s, after barrier"));
  CHECK(has("   2  node1       102         7       -  in barrier for 4.000 s, waits for rank 0"));
  CHECK(has("behind: rank 0\n"));
  CHECK(has("no record: rank 1\n"));
  CHECK(has("written by 2 of 3 ranks: requested by SIGUSR1\n"));
  CHECK(table.find("   0  node1") < table.find("   2  node1"));
}

TEST_CASE("the timeline has a bar for each call, which ends where the record does") {
  const auto json = nlohmann::json::parse(chrome_timeline(
      {parse_record(record(2, 7, "null"), "b"), parse_record(record(0, 5, "2000000.0"), "a")}));
  std::vector<double> lengths;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "X") lengths.push_back(event.at("dur").get<double>());
  }
  CHECK(lengths == std::vector{4e6, 1e6});
}

TEST_CASE("an invalid record is an error that names the file") {
  for (const auto* text : {"", "{", "[]", "{}", "{\"schema\": 2}", "{\"schema\": \"x\"}"}) {
    CAPTURE(text);
    try {
      static_cast<void>(parse_record(text, "some/file"));
      FAIL("it was taken");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::usage);
      CHECK(error.sentence().find("some/file") != std::string::npos);
    }
  }
}

}  // namespace tutti::app
