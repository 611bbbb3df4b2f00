#include "trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "output.hpp"
#include "read_file.hpp"
#include "tutti/error.hpp"

namespace tutti::app {
namespace {

using Json = nlohmann::json;

TracedCall parse_call(const Json& json, std::uint32_t communicator) {
  TracedCall call{.communicator = communicator,
                  .sequence = json.at("sequence").get<std::uint64_t>(),
                  .operation = json.at("operation").get<std::string>(),
                  .text = json.at("call").get<std::string>(),
                  .bytes = json.at("bytes").get<std::uint64_t>(),
                  .begin_us = json.at("begin_us").get<double>(),
                  .end_us = std::nullopt,
                  .awaited = {}};
  if (!json.at("end_us").is_null()) call.end_us = json.at("end_us").get<double>();
  if (json.contains("awaited")) call.awaited = json.at("awaited").get<std::vector<int>>();
  return call;
}

/// The latest unfinished call; if there is none, the latest call.
const TracedCall* current_call(const Record& record) {
  const TracedCall* current = nullptr;
  const auto rank_of = [](const TracedCall& call) {
    return std::pair(!call.end_us.has_value(), call.begin_us);
  };
  for (const auto& call : record.calls) {
    if (current == nullptr || rank_of(call) > rank_of(*current)) current = &call;
  }
  return current;
}

std::string doing(const Record& record) {
  const auto* const call = current_call(record);
  if (call == nullptr) return "has made no call";
  if (call->end_us) {
    return fmt::format("outside any call for {:.3f} s, after {}",
                       (record.written_us - *call->end_us) * 1e-6, call->text);
  }
  auto text =
      fmt::format("in {} for {:.3f} s", call->text, (record.written_us - call->begin_us) * 1e-6);
  if (call->communicator != 0) text += fmt::format(" (communicator {})", call->communicator);
  if (!call->awaited.empty()) {
    text += fmt::format(", waits for rank{} {}", call->awaited.size() == 1 ? "" : "s",
                        fmt::join(call->awaited, ", "));
  }
  return text;
}

/// Number of the latest call on the job's communicator, which has id 0.
std::uint64_t sequence_of(const Record& record) {
  for (const auto& [communicator, sequence] : record.sequences) {
    if (communicator == 0) return sequence;
  }
  return 0;
}

}  // namespace

Record parse_record(const std::string& text, const std::string& file) {
  try {
    const auto json = Json::parse(text);
    const auto schema = json.at("schema").get<int>();
    if (schema != 1) {
      throw Error(
          ErrorCode::usage,
          fmt::format(
              "{} has schema {}, expected 1: read it with the version of tutti that wrote it", file,
              schema));
    }
    Record record{.rank = json.at("rank").get<int>(),
                  .size = json.at("size").get<int>(),
                  .host = json.at("host").get<std::string>(),
                  .pid = json.at("pid").get<std::uint32_t>(),
                  .written_us = json.at("written_us").get<double>(),
                  .reason = json.at("reason").get<std::string>(),
                  .sequences = {},
                  .calls = {}};
    for (const auto& communicator : json.at("communicators")) {
      const auto id = communicator.at("communicator").get<std::uint32_t>();
      record.sequences.emplace_back(id, communicator.at("sequence").get<std::uint64_t>());
      for (const auto& call : communicator.at("calls")) {
        record.calls.push_back(parse_call(call, id));
      }
    }
    return record;
  } catch (const Json::exception& error) {
    throw Error(
        ErrorCode::usage,
        fmt::format(
            "{} is not a record of tutti: expected a file that TUTTI_RECORD=FOLDER wrote: {}", file,
            error.what()));
  }
}

std::string trace_table(std::vector<Record> records) {
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.rank < b.rank; });
  std::uint64_t furthest = 0;
  std::size_t host_width = 4;
  int size = 0;
  std::map<std::string, int> reasons;
  for (const auto& record : records) {
    furthest = std::max(furthest, sequence_of(record));
    host_width = std::max(host_width, record.host.size());
    size = std::max(size, record.size);
    ++reasons[record.reason];
  }
  auto text = fmt::format("{:>4}  {:<{}}  {:>8}  {:>8}  {:>6}  doing\n", "rank", "host", host_width,
                          "pid", "call", "behind");
  std::vector<int> behind;
  for (const auto& record : records) {
    const auto lag = furthest - sequence_of(record);
    if (lag > 0) behind.push_back(record.rank);
    text += fmt::format("{:>4}  {:<{}}  {:>8}  {:>8}  {:>6}  {}\n", record.rank, record.host,
                        host_width, record.pid, sequence_of(record),
                        lag == 0 ? "-" : std::to_string(lag), doing(record));
  }
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    const bool is_there = std::any_of(records.begin(), records.end(),
                                      [&](const Record& record) { return record.rank == rank; });
    if (!is_there) missing.push_back(rank);
  }
  if (!behind.empty()) text += fmt::format("behind: rank {}\n", fmt::join(behind, ", "));
  if (!missing.empty()) text += fmt::format("no record: rank {}\n", fmt::join(missing, ", "));
  for (const auto& [reason, ranks] : reasons) {
    text += fmt::format("written by {} of {} ranks: {}\n", ranks, size, reason);
  }
  return text;
}

std::string chrome_timeline(const std::vector<Record>& records) {
  double start = 0;
  for (const auto& record : records) {
    for (const auto& call : record.calls) {
      start = start == 0 ? call.begin_us : std::min(start, call.begin_us);
    }
  }
  auto events = Json::array();
  for (const auto& record : records) {
    const auto name = fmt::format("rank {} ({}, pid {})", record.rank, record.host, record.pid);
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", record.rank},
                      {"args", Json{{"name", name}}}});
    for (const auto& call : record.calls) {
      Json args{{"call", call.text}, {"sequence", call.sequence}, {"bytes", call.bytes}};
      if (!call.awaited.empty()) args["waits for ranks"] = call.awaited;
      if (!call.end_us) args["unfinished"] = true;
      events.push_back({{"name", call.operation},
                        {"ph", "X"},
                        {"pid", record.rank},
                        {"tid", call.communicator},
                        {"ts", call.begin_us - start},
                        {"dur", call.end_us.value_or(record.written_us) - call.begin_us},
                        {"args", std::move(args)}});
    }
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

int trace(const TraceOptions& options) {
  std::vector<Record> records;
  for (const auto& file : options.files)
    records.push_back(parse_record(read_file(file, "the record"), file));
  if (!options.chrome.empty()) {
    std::ofstream out(options.chrome, std::ios::binary);
    out << chrome_timeline(records) << std::flush;
    if (!out) {
      throw Error(ErrorCode::usage,
                  fmt::format("can't write {}: {}", options.chrome, std::strerror(errno)));
    }
  }
  print(trace_table(std::move(records)));
  return 0;
}

}  // namespace tutti::app
