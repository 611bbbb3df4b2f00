#include "base/fault_injection.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <thread>

#include "base/environment.hpp"
#include "tutti/error.hpp"

namespace tutti {
namespace {

struct Form {
  std::string_view name;
  FaultKind kind;
  bool needs_rank;
  std::string_view keys;  ///< allowed keys besides rank, each between blanks
  std::string_view needed;
  std::string_view example;
};

constexpr std::array<Form, 6> forms{{
    {"kill", FaultKind::kill, true, " call ", "", "kill:rank=2,call=100"},
    {"stop", FaultKind::stop, true, " call ", "", "stop:rank=2,call=100"},
    {"delay", FaultKind::delay, true, " call time ", "time", "delay:rank=1,call=5,time=50ms"},
    {"drop-link", FaultKind::drop_link, true, " call peer ", "peer",
     "drop-link:rank=0,peer=1,call=5"},
    {"short-writes", FaultKind::short_writes, false, " bytes ", "", "short-writes:rank=0,bytes=7"},
    {"refuse-shared-memory", FaultKind::refuse_shared_memory, false, " ", "",
     "refuse-shared-memory:rank=0"},
}};

[[noreturn]] void refuse(std::string_view part, const std::string& why, std::string_view example) {
  throw Error(ErrorCode::usage,
              fmt::format("TUTTI_FAULT={} is unusable: {}; example: {}", part, why, example));
}

/// Removes the text before `separator` from `text` and returns it.
std::string_view take_until(std::string_view& text, char separator) {
  const auto part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

template <class T>
std::optional<T> whole_number(std::string_view text, T least, T most) {
  T number{};
  const auto* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < least || number > most) return std::nullopt;
  return number;
}

void set_key(Fault& fault, const Form& form, std::string_view part, std::string_view key,
             std::string_view value) {
  constexpr int max_ranks = 1 << 24;
  const auto reject = [&](std::string_view wanted) {
    refuse(part, fmt::format("{}={} is not a valid {}", key, value, wanted), form.example);
  };
  if (key == "rank") {
    fault.rank = whole_number<int>(value, 0, max_ranks);
    if (!fault.rank) reject("rank");
  } else if (key == "call") {
    const auto number = whole_number<std::uint64_t>(value, 1, UINT64_MAX);
    if (!number) reject("call number (from 1)");
    fault.call = *number;
  } else if (key == "peer") {
    const auto number = whole_number<int>(value, 0, max_ranks);
    if (!number) reject("rank");
    fault.peer = *number;
  } else if (key == "bytes") {
    const auto number = whole_number<std::size_t>(value, 1, std::size_t{1} << 30);
    if (!number) reject("number of bytes (from 1)");
    fault.bytes = *number;
  } else {
    const auto time = parse_duration(value);
    if (!time || time->count() == 0) reject("time (above 0)");
    fault.time = *time;
  }
}

Fault parse_fault(std::string_view part) {
  auto rest = part;
  const auto name = take_until(rest, ':');
  const auto* const form =
      std::find_if(forms.begin(), forms.end(), [&](const Form& each) { return each.name == name; });
  if (form == forms.end()) {
    std::string names;
    for (const auto& each : forms) names += (names.empty() ? "" : ", ") + std::string(each.name);
    refuse(part, fmt::format("unknown fault '{}': use {}", name, names), forms[0].example);
  }
  Fault fault{.kind = form->kind};
  std::string seen = " ";
  while (!rest.empty()) {
    auto value = take_until(rest, ',');
    const auto key = std::string(take_until(value, '='));
    const auto framed = " " + key + " ";
    if (key.empty() || (key != "rank" && form->keys.find(framed) == std::string_view::npos)) {
      refuse(part, fmt::format("{} has no key '{}'", name, key), form->example);
    }
    if (seen.find(framed) != std::string::npos) {
      refuse(part, fmt::format("it has '{}' twice", key), form->example);
    }
    seen += key + " ";
    set_key(fault, *form, part, key, value);
  }
  if (form->needs_rank && !fault.rank) refuse(part, "it has no 'rank'", form->example);
  if (!form->needed.empty() && seen.find(fmt::format(" {} ", form->needed)) == std::string::npos) {
    refuse(part, fmt::format("it has no '{}'", form->needed), form->example);
  }
  if (fault.rank && fault.peer == *fault.rank) {
    refuse(part, "a rank has no link with itself", form->example);
  }
  return fault;
}

}  // namespace

std::vector<Fault> parse_faults(std::string_view text) {
  std::vector<Fault> faults;
  while (!text.empty()) {
    const auto part = take_until(text, ';');
    if (!part.empty()) faults.push_back(parse_fault(part));
  }
  return faults;
}

InjectedFaults::InjectedFaults(const std::vector<Fault>& all, int rank, int size) {
  for (const auto& fault : all) {
    const int highest = std::max(fault.rank.value_or(0), fault.peer);
    if (highest >= size) {
      throw Error(ErrorCode::usage,
                  fmt::format("TUTTI_FAULT names rank {}, but the job has ranks 0 to {}", highest,
                              size - 1));
    }
    if (fault.rank.value_or(rank) != rank) continue;
    switch (fault.kind) {
      case FaultKind::short_writes:
        max_written_bytes_ = fault.bytes;
        break;
      case FaultKind::refuse_shared_memory:
        refuses_shared_memory_ = true;
        break;
      default:
        timed_.push_back(fault);
    }
  }
  has_timed_ = !timed_.empty();
}

void InjectedFaults::count_call() {
  const auto call = calls_.fetch_add(1) + 1;
  for (const auto& fault : timed_) {
    if (fault.call != call) continue;
    switch (fault.kind) {
      case FaultKind::kill:
        ::kill(::getpid(), SIGKILL);
        break;
      case FaultKind::stop:
        ::kill(::getpid(), SIGSTOP);
        break;
      case FaultKind::delay:
        std::this_thread::sleep_for(fault.time);
        break;
      default: {
        const std::lock_guard lock(mutex_);
        links_to_drop_.push_back(fault.peer);
        has_links_to_drop_ = true;
      }
    }
  }
}

int InjectedFaults::take_link_to_drop() {
  if (!has_timed_ || !has_links_to_drop_) return -1;
  const std::lock_guard lock(mutex_);
  if (links_to_drop_.empty()) return -1;
  const int peer = links_to_drop_.back();
  links_to_drop_.pop_back();
  has_links_to_drop_ = !links_to_drop_.empty();
  return peer;
}

}  // namespace tutti
