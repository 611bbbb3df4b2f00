#include "hostfile/hostfile_line.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "tutti/error.hpp"

namespace tutti::hostfile {
namespace {

constexpr int max_slots = 1 << 20;
constexpr int max_ports = 65535;

[[noreturn]] void refuse(const std::string& file, int line, const std::string& sentence) {
  throw Error(ErrorCode::usage, fmt::format("{}:{}: {}", file, line, sentence));
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

bool is_address_v6(const std::string& text) {
  const auto without_zone = text.substr(0, text.find('%'));
  in6_addr address{};
  return ::inet_pton(AF_INET6, without_zone.c_str(), &address) == 1;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.front() != '-' && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
         });
}

/// Removes comments. Keeps line ends, so line numbers stay correct.
std::string without_comments(std::string_view text, const std::string& file) {
  std::string result;
  int line = 1;
  int comment_line = 0;
  enum class In : std::uint8_t { code, to_line_end, block } in = In::code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto pair = text.substr(i, 2);
    const char c = text[i];
    if (c == '\n') {
      ++line;
      if (in == In::to_line_end) in = In::code;
      result += c;
    } else if (in == In::block) {
      if (pair == "*/") {
        in = In::code;
        ++i;
      }
    } else if (in == In::code && (c == '#' || pair == "//")) {
      in = In::to_line_end;
    } else if (in == In::code && pair == "/*") {
      in = In::block;
      comment_line = line;
      result += ' ';
      ++i;
    } else if (in == In::code) {
      result += c;
    }
  }
  if (in == In::block)
    refuse(file, comment_line, "the comment that begins here has no end: add */");
  return result;
}

/// Converts CR and CR LF to LF.
std::string with_line_ends(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      result += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      result += '\n';
    }
  }
  return result;
}

int read_count(const HostfileLine& line, const std::string& file, const std::string& entry,
               std::string_view value, int max) {
  int number = 0;
  const auto* const end = value.data() + value.size();
  const auto result = std::from_chars(value.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || number < 1 || number > max) {
    refuse(file, line.number,
           fmt::format("invalid count in '{}': expected a whole number from 1 to {}; to omit a "
                       "host, remove its line",
                       entry, max));
  }
  return number;
}

/// Splits "host:4", "[::1]:2" and "fe80::1".
void read_host(const HostfileLine& line, const std::string& file, const std::string& entry,
               std::string host, HostfileEntry& result) {
  std::string count;
  bool has_count = false;
  if (!host.empty() && host.front() == '[') {
    const auto end = host.find(']');
    const auto rest = end == std::string::npos ? std::string() : host.substr(end + 1);
    if (end == std::string::npos || (!rest.empty() && rest.front() != ':') ||
        !is_address_v6(host.substr(1, end - 1))) {
      refuse(file, line.number,
             fmt::format(
                 "invalid address '{}': expected an IPv6 address in brackets, such as [fd00::1]:2",
                 entry));
    }
    has_count = !rest.empty();
    if (has_count) count = rest.substr(1);
    result.name = host.substr(1, end - 1);
  } else {
    const auto colons = std::count(host.begin(), host.end(), ':');
    if (colons > 1 && is_address_v6(host)) {
      result.name = host;
    } else {
      const auto colon = host.find(':');
      has_count = colon != std::string::npos;
      if (has_count) count = host.substr(colon + 1);
      result.name = host.substr(0, colon);
      if (result.name.find_first_of("[]{}*") != std::string::npos) {
        refuse(file, line.number,
               fmt::format("'{}' is a pattern, which mpirun does not expand: list each host on its "
                           "own line (under Slurm: scontrol show hostnames)",
                           entry));
      }
      if (result.name.find(',') != std::string::npos) {
        refuse(file, line.number, fmt::format("'{}': list each host on its own line", entry));
      }
      if (colons > 1 || !is_name(result.name)) {
        refuse(file, line.number,
               fmt::format("invalid host '{}': expected a name of letters, digits, dots and "
                           "dashes, or an address",
                           entry));
      }
    }
  }
  if (has_count) result.counts = read_count(line, file, entry, count, max_slots);
}

void read_key(const HostfileLine& line, const std::string& file, const std::string& word,
              HostfileEntry& result) {
  const auto equals = word.find('=');
  auto key = word.substr(0, equals);
  const auto value = word.substr(equals + 1);
  std::replace(key.begin(), key.end(), '-', '_');
  std::transform(key.begin(), key.end(), key.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto set = [&](std::optional<int>& target, int max) {
    if (target)
      refuse(file, line.number,
             fmt::format("{}: the line has this key twice: keep one of them", word));
    target = read_count(line, file, word, value, max);
  };
  if (key == "slots" || key == "count" || key == "cpu") return set(result.slots, max_slots);
  if (key == "max_slots" || key == "slots_max") return set(result.max_slots, max_slots);
  if (key == "port") return set(result.port, max_ports);
  if (key == "user" || key == "username" || key == "user_name") {
    if (value.empty()) refuse(file, line.number, word + ": expected a user name after =");
    result.user = value;
    return;
  }
  constexpr std::array<std::string_view, 5> harmless{"binding", "ifname", "boards",
                                                     "sockets_per_board", "cores_per_socket"};
  if (std::find(harmless.begin(), harmless.end(), key) != harmless.end()) return;
  refuse(file, line.number,
         fmt::format("unknown key '{}': expected slots=N, max_slots=N or port=N; give a rankfile "
                     "by mpirun --rankfile",
                     word));
}

}  // namespace

std::vector<HostfileLine> split_hostfile(std::string_view text, const std::string& file) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(zero), '\n');
    refuse(file, static_cast<int>(line), "not a text file: save the hostfile as UTF-8");
  }
  const auto plain = without_comments(with_line_ends(text), file);

  std::vector<HostfileLine> lines;
  HostfileLine line{.number = 1};
  std::string word;
  const auto end_word = [&] {
    if (word.empty()) return;
    // "slots = 2", "slots =2" and "slots= 2" are equivalent to "slots=2".
    const bool joins =
        !line.words.empty() && (word.front() == '=' || line.words.back().back() == '=');
    if (joins) {
      line.words.back() += word;
    } else {
      line.words.push_back(word);
    }
    word.clear();
  };
  for (const char c : plain + "\n") {
    if (c == '\n') {
      end_word();
      if (!line.words.empty()) lines.push_back(line);
      line = {.number = line.number + 1};
    } else if (is_blank(c)) {
      end_word();
    } else {
      word += c;
    }
  }
  return lines;
}

HostfileEntry read_hostfile_line(const HostfileLine& line, const std::string& file) {
  HostfileEntry result;
  const auto& entry = line.words.front();
  auto host = entry;
  if (host.starts_with('^')) {
    result.excluded = true;
    host.erase(0, 1);
  }
  if (host.starts_with('+')) {
    refuse(file, line.number,
           fmt::format(
               "'{}' needs a scheduler's allocation, which a dry run does not have: name the host",
               entry));
  }
  if (host.find('=') != std::string::npos) {
    refuse(file, line.number,
           fmt::format("{} comes before a host: begin the line with the host's name", entry));
  }
  if (const auto at = host.find('@'); at != std::string::npos) {
    result.user = host.substr(0, at);
    host.erase(0, at + 1);
    if (result.user.empty() || host.empty() || host.find('@') != std::string::npos) {
      refuse(
          file, line.number,
          fmt::format("invalid host '{}': expected user@host, with one @ and both names", entry));
    }
  }
  read_host(line, file, entry, host, result);
  for (std::size_t i = 1; i < line.words.size(); ++i) {
    const auto& word = line.words[i];
    if (word.find('=') == std::string::npos) {
      refuse(file, line.number,
             fmt::format("unexpected '{}' after {}: list each host on its own line, and give "
                         "counts as slots=N",
                         word, entry));
    }
    read_key(line, file, word, result);
  }
  if (result.slots && result.counts) {
    refuse(file, line.number,
           fmt::format("{} has both {}:{} and slots={}: give one of them", result.name, result.name,
                       *result.counts, *result.slots));
  }
  if (const auto slots = result.slots ? result.slots : result.counts;
      slots && result.max_slots && *result.max_slots < *slots) {
    refuse(file, line.number,
           fmt::format("max_slots={} is below the {} slots of {}: raise it, or leave it out",
                       *result.max_slots, *slots, result.name));
  }
  return result;
}

}  // namespace tutti::hostfile
