#include "bench/report.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catalogue.hpp"
#include "support/catch.hpp"

namespace tutti::app::bench {
namespace {

CallSpec spec_of(Operation operation, int ranks, std::size_t count = 1'000'000) {
  return {.operation = operation, .type = Type::f32, .count = count, .ranks = ranks};
}

/// Equality up to rounding.
class Near {
 public:
  explicit Near(double due) : value_(due) {}
  friend bool operator==(double is, Near due) {
    return std::abs(is - due.value_) < 1e-9 * due.value_;
  }
  friend std::ostream& operator<<(std::ostream& stream, Near due) { return stream << due.value_; }

 private:
  double value_;
};

/// tutti takes 10 and 20 µs, one implementation 30 and 20 µs, and another does not support the
/// call.
Report small_report() {
  const ImplementationResult ours{
      .seconds = {10e-6, 20e-6}, .throughput = {5e-6}, .algorithm = "ring"};
  const ImplementationResult theirs{
      .seconds = {30e-6, 20e-6}, .throughput = {10e-6}, .wrong_elements = 7};
  const ImplementationResult absent{.missing = "it has no such call"};
  const auto spec = spec_of(Operation::all_reduce, 4);
  return {.setup = {.ranks = 4, .backend = "cpu", .version = "1.2.3", .mpi = "Some MPI 1"},
          .comparisons = {make_comparison(spec, {"tutti", "mpi", "gloo"}, {ours, theirs, absent})}};
}

}  // namespace

TEST_CASE("quantiles are interpolated") {
  const std::vector<double> values{4, 1, 3, 2, 5};
  CHECK(quantile(values, 0.5) == 3);
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 1) == 5);
  CHECK(quantile(values, 0.1) == Near(1.4));
  CHECK(quantile(std::vector<double>{7}, 0.9) == 7);
  CHECK(mean(values) == 3);
}

TEST_CASE("ratios are taken pair by pair") {
  // The machine was ten times slower during one of the pairs, which must not affect the ratio.
  const auto ratio = paired_ratio(std::vector<double>{2, 20, 3}, std::vector<double>{1, 10, 1});
  CHECK(ratio.median == 2);
  CHECK(ratio.low == 2);
  CHECK(ratio.high == 2.5);
}

TEST_CASE("each implementation is as often before as after each other") {
  for (const std::size_t implementations : {1U, 2U, 3U, 5U}) {
    std::vector<std::vector<int>> before(implementations, std::vector<int>(implementations));
    for (std::size_t round = 0; round < 2 * implementations; ++round) {
      const auto order = order_of_round(round, implementations);
      REQUIRE(order.size() == implementations);
      for (std::size_t i = 0; i < implementations; ++i) {
        for (std::size_t j = i + 1; j < implementations; ++j) ++before[order[i]][order[j]];
      }
    }
    for (std::size_t i = 0; i < implementations; ++i) {
      for (std::size_t j = 0; j < implementations; ++j) CHECK(before[i][j] == before[j][i]);
    }
  }
}

TEST_CASE("rates are those of nccl-tests") {
  const auto rates = [](Operation operation) {
    return bandwidth_of(spec_of(operation, 4), 1e-3);  // blocks of 4 MB in one millisecond
  };
  CHECK(rates(Operation::all_reduce).algorithm_gbs == Near(4));
  CHECK(rates(Operation::all_reduce).bus_gbs == Near(6));
  CHECK(rates(Operation::broadcast).bus_gbs == Near(4));
  CHECK(rates(Operation::reduce).bus_gbs == Near(4));
  CHECK(rates(Operation::send_recv).bus_gbs == Near(4));
  CHECK(rates(Operation::fan_out).algorithm_gbs == Near(4));
  CHECK(rates(Operation::fan_out).bus_gbs == Near(12));
  for (const auto operation : {Operation::all_gather, Operation::reduce_scatter, Operation::gather,
                               Operation::scatter, Operation::all_to_all}) {
    CHECK(rates(operation).algorithm_gbs == Near(16));
    CHECK(rates(operation).bus_gbs == Near(12));
  }
}

TEST_CASE("a comparison has rows, ratios and what is missing") {
  const auto comparison = small_report().comparisons[0];
  REQUIRE(comparison.rows.size() == 2);
  CHECK(comparison.rows[0].median_us == Near(15));
  CHECK(comparison.rows[0].p10_us == Near(11));
  CHECK(comparison.rows[0].p90_us == Near(19));
  CHECK(comparison.rows[0].p99_us == Near(19.9));
  CHECK(comparison.rows[0].max_us == Near(20));
  CHECK(comparison.rows[0].throughput_us.value() == Near(5));
  CHECK(comparison.rows[0].iterations == 2);
  CHECK(comparison.rows[0].algorithm == "ring");
  CHECK(comparison.rows[1].wrong == 7);
  REQUIRE(comparison.ratios.size() == 1);
  CHECK(comparison.ratios[0].vs == "mpi");
  CHECK(comparison.ratios[0].ratio.median == Near(2));  // median of 3 and 1
  CHECK(comparison.ratios[0].throughput.value() == Near(2));
  REQUIRE(comparison.missing.size() == 1);
  CHECK(comparison.missing[0].implementation == "gloo");
}

TEST_CASE("an implementation without a result has no count of wrong elements") {
  const ImplementationResult ours{.seconds = {10e-6}};
  const ImplementationResult bound{.seconds = {5e-6}, .computes = false};
  const auto comparison =
      make_comparison(spec_of(Operation::all_reduce, 4), {"tutti", "copies"}, {ours, bound});
  CHECK(comparison.rows[0].wrong == 0);
  CHECK(!comparison.rows[1].wrong);
  CHECK(comparison.ratios[0].ratio.median == Near(0.5));
}

TEST_CASE("the JSON has the schema that is documented") {
  auto report = small_report();
  CHECK(nlohmann::json::parse(json_text(report))["job"]["core_quota"].is_null());
  report.setup.core_quota = 1.5;
  const auto json = nlohmann::json::parse(json_text(report));
  CHECK(json["job"]["core_quota"] == 1.5);
  CHECK(json["schema"] == 1);
  CHECK(json["job"]["ranks"] == 4);
  CHECK(json["job"]["mpi"] == "Some MPI 1");
  CHECK(json["job"]["device"].is_null());
  REQUIRE(json["rows"].size() == 2);
  const auto& row = json["rows"][1];
  CHECK(row["op"] == "all_reduce");
  CHECK(row["peer"] == "mpi");
  CHECK(row["type"] == "f32");
  CHECK(row["bytes"] == 4'000'000);
  CHECK(row["wrong"] == 7);
  for (const auto* key :
       {"median_us", "p10_us", "p90_us", "p99_us", "max_us", "algbw_gbs", "busbw_gbs"}) {
    CHECK(row[key].get<double>() > 0);
  }
  const auto& ratio = json["ratios"][0];
  CHECK(ratio["vs"] == "mpi");
  CHECK(ratio["ratio"].get<double>() == Near(2));
  CHECK(ratio["low"].get<double>() == Near(1.5));
  CHECK(ratio["high"].get<double>() == Near(2.5));
  CHECK(json["missing"][0]["reason"] == "it has no such call");
}

TEST_CASE("each line of the CSV has every column") {
  std::istringstream lines(csv_text(small_report()));
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    CHECK(std::count(line.begin(), line.end(), ',') == 19);
    ++count;
  }
  CHECK(count == 3);
}

TEST_CASE("the table shows all implementations") {
  const auto report = small_report();
  const auto heading = table_heading(report.setup, report.comparisons[0].spec);
  CHECK(heading.starts_with(
      "all-reduce of f32 by sum, out of place, 4 ranks on 1 host, backend cpu\n"));
  const auto rows = table_rows(report.comparisons[0]);
  CHECK(rows.find("tutti") != std::string::npos);
  CHECK(rows.find("2.00 (1.50 to 2.50), 2.00") != std::string::npos);
  CHECK(rows.find("it has no such call") != std::string::npos);
}

TEST_CASE("nccl-tests' table has its columns") {
  auto report = small_report();
  report.comparisons[0].spec.in_place = true;
  const auto text = nccl_tests_text(report);
  CHECK(text.find("     4000000       1000000     float     sum      -1") != std::string::npos);
  CHECK(text.find("# Out of bounds values : 0 OK") != std::string::npos);
  CHECK(text.find("# Out of bounds values : 7 FAILED") != std::string::npos);
  // In-place: the first four columns are empty.
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    const std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
    REQUIRE(all.size() == 13);
    CHECK(all[5] == "N/A");
    CHECK(std::stod(all[9]) > 0);
  }
}

TEST_CASE("OSU's table has its two columns and its sizes") {
  Report report = small_report();
  CHECK(osu_text(report).find("# Size         Avg Latency(us)\n4000000                  15.00\n") !=
        std::string::npos);
  CHECK(osu_bytes(spec_of(Operation::all_to_all, 4)) == 4'000'000);
  CHECK(osu_bytes(spec_of(Operation::reduce_scatter, 4)) == 16'000'000);
  CHECK(osu_bytes(spec_of(Operation::all_gather, 4)) == 4'000'000);
}

TEST_CASE("operations are found by any spelling of their name") {
  for (const auto& entry : catalogue()) {
    CHECK(find_entry(entry.name) == &entry);
    CHECK(find_entry(name(entry.operation)) == &entry);
    CHECK(shown_name(entry.operation) == entry.name);
  }
  REQUIRE(find_entry("allreduce") != nullptr);
  CHECK(find_entry("allreduce")->operation == Operation::all_reduce);
  CHECK(find_entry("frobnicate") == nullptr);
}

}  // namespace tutti::app::bench
