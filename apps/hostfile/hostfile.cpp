#include "hostfile/hostfile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "hostfile/hostfile_line.hpp"
#include "tutti/error.hpp"

namespace tutti::hostfile {
namespace {

enum class Form : std::uint8_t { bare, slots, counts };

struct Mention {
  int line;
  Form form;
  std::string text;  ///< quoted in errors: "slots=2", "a:2", "no slots"
};

Form form_of(const HostfileEntry& entry) {
  if (entry.slots) return Form::slots;
  return entry.counts ? Form::counts : Form::bare;
}

std::string text_of(const HostfileEntry& entry) {
  if (entry.slots) return fmt::format("slots={}", *entry.slots);
  if (entry.counts) return fmt::format("{}:{}", entry.name, *entry.counts);
  return "no slots";
}

}  // namespace

std::vector<HostEntry> parse_hostfile(std::string_view text, const std::string& file,
                                      std::vector<std::string>* notes) {
  std::vector<HostEntry> hosts;
  std::map<std::string, std::size_t> known;
  std::map<std::string, Mention> mentions;
  std::map<std::string, int> bare_mentions;
  std::set<std::string> excluded;
  const auto refuse = [&](int line, const std::string& sentence) {
    throw Error(ErrorCode::usage, fmt::format("{}:{}: {}", file, line, sentence));
  };

  for (const auto& line : split_hostfile(text, file)) {
    const auto entry = read_hostfile_line(line, file);
    if (entry.excluded) {
      if (excluded.insert(entry.name).second && notes != nullptr) {
        notes->push_back(
            fmt::format("{}:{}: Open MPI 4.1 and 5.0 reject ^{}: remove this line and those that "
                        "name the host, or start with scripts/launch, which omits it",
                        file, line.number, entry.name));
      }
      continue;
    }
    const Mention now{line.number, form_of(entry), text_of(entry)};
    const auto [before, is_first] = mentions.emplace(entry.name, now);
    if (is_first) {
      known[entry.name] = hosts.size();
      hosts.push_back({.name = entry.name, .line = line.number});
    } else if (now.form == Form::slots || before->second.form != now.form) {
      // Launchers differ in which of the two counts they use.
      refuse(line.number,
             fmt::format("{} has {} here and {} on line {}: list it once, with all its slots",
                         entry.name, now.text, before->second.text, before->second.line));
    }
    auto& host = hosts[known.at(entry.name)];
    if (host.port && entry.port && host.port != entry.port) {
      refuse(line.number,
             fmt::format("{} has port={} here and port={} on line {}: give one of them", entry.name,
                         *entry.port, *host.port, host.line));
    }
    if (!entry.user.empty()) host.user = entry.user;
    if (entry.port) host.port = entry.port;
    if (entry.max_slots) host.max_slots = entry.max_slots;
    if (now.form == Form::slots) host.slots = entry.slots;
    if (now.form == Form::counts) host.slots = host.slots.value_or(0) + *entry.counts;
    // A host listed once without slots has one slot per core. Listed several times, it has one slot
    // per mention.
    if (now.form == Form::bare && ++bare_mentions[entry.name] > 1) {
      host.slots = bare_mentions[entry.name];
    }
  }

  const bool named_some = !hosts.empty();
  std::erase_if(hosts, [&](const HostEntry& host) { return excluded.contains(host.name); });
  if (hosts.empty()) {
    throw Error(
        ErrorCode::usage,
        fmt::format("{}:1: {}", file,
                    named_some ? "^ excludes every host: keep at least one"
                               : "no host found: expected one per line, such as node1 slots=2"));
  }
  return hosts;
}

}  // namespace tutti::hostfile
