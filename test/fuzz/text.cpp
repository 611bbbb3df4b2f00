// Text from users: values, variables, names, secrets.
#include <algorithm>

#include "base/call_signature.hpp"
#include "base/environment.hpp"
#include "bootstrap/shared_secret.hpp"
#include "hostfile/hostfile.hpp"
#include "hostfile/placement.hpp"
#include "launch/place.hpp"
#include "launch/resolve.hpp"
#include "targets.hpp"
#include "tutti/error.hpp"

namespace tutti::fuzz {
namespace {

/// Invalid input must give one printable sentence.
void require_good_sentence(const Error& error) {
  require(error.code() == ErrorCode::usage, "bad input is a usage error");
  require(error.sentence().find('=') != std::string::npos || error.sentence().find("TUTTI_") == 0,
          "the sentence names the variable and its value");
}

/// Lines of NAME=VALUE.
EnvironmentMap map_from(Input input) {
  EnvironmentMap map;
  std::string text = text_of(input);
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto equals = text.find('=');
    if (equals < end) map[text.substr(0, equals)] = text.substr(equals + 1, end - equals - 1);
    text.erase(0, end + 1);
  }
  return map;
}

/// Rank and size from variables and options. The map contains the options by their own names.
void check_launch(const EnvironmentMap& map) {
  const auto word = [&](const char* name) {
    const auto found = map.find(name);
    return found == map.end() ? std::string() : found->second;
  };
  const launch::Words words{.init = word("--init"),
                            .rank = word("--rank"),
                            .size = word("--ranks"),
                            .local_rank = word("--local-rank")};
  const auto is_sentence = [](const Error& error) {
    require(error.code() == ErrorCode::usage && error.sentence().size() > 10,
            "bad input is a usage error with a sentence");
  };
  try {
    const auto choice = launch::choose_init(map, words);
    require((choice.init == launch::Init::store) == !choice.url.empty(), "a store has a place");
    const auto resolved = launch::resolve(map, words, choice);
    require(resolved.rank >= 0 && resolved.rank < resolved.size, "a rank is one of the ranks");
    require(resolved.local_rank.value_or(0) >= 0 && resolved.local_size.value_or(1) >= 1,
            "local ranks are no negative numbers");
    require(!resolved.chosen || !resolved.text().empty(), "who says so can be told to people");
  } catch (const Error& error) {
    is_sentence(error);
  }
  try {
    const auto resolved =
        launch::require_agreement(map, words, {.rank = 1, .size = 4, .mpi = "an MPI"});
    (void)resolved.shadow_text();
  } catch (const Error& error) {
    is_sentence(error);
  }
  try {
    require(launch::claimed_rank(map, words).value_or(0) >= 0, "a rank is no negative number");
    (void)launch::flag(map, "TUTTI_INSECURE");
  } catch (const Error& error) {
    is_sentence(error);
  }
}

}  // namespace

void values(Input input) {
  const auto text = text_of(input);
  if (const auto duration = parse_duration(text)) {
    require(duration->count() >= 0 && *duration <= std::chrono::hours(24 * 366),
            "a duration is neither negative nor over a year");
  }
  if (const auto bytes = parse_size(text)) {
    require(*bytes <= (std::size_t{1} << 53), "a size is a whole number of bytes");
    require(parse_size(std::to_string(*bytes)) == bytes, "a size can be written in plain bytes");
  }
  (void)parse_backend(text);
  if (const auto type = parse_type(text)) require(name(*type) == text, "a type has one name");
  if (const auto op = parse_operator(text)) require(name(*op) == text, "an operator has one name");
  const auto id = algorithm_id(text);
  require(id == 0 || algorithm_name(id) == text, "an algorithm has one id");
}

void environment(Input input) {
  const auto map = map_from(input);
  try {
    const auto environment = Environment::from(map);
    require(environment.timeout.count() > 0 &&
                (environment.chunk_bytes == 0 || environment.chunk_bytes >= 64) &&
                environment.eager_bytes <= (1U << 20) &&
                environment.far_eager_bytes <= (1U << 20) && environment.keepalive.count() >= 1 &&
                environment.host_id.size() <= 255,
            "what is accepted is within its bounds");
    require(!environment.agreed_settings().empty(), "there is something to agree on");
  } catch (const Error& error) {
    require_good_sentence(error);
  }
  check_launch(map);
  try {
    const auto claim = launch::read_launcher(map);
    require(claim.local_rank.value_or(0) >= 0, "a local rank is no negative number");
    (void)launch::disagreement(claim, {}, "host");
  } catch (const Error& error) {
    require_good_sentence(error);
  }
}

void fault(Input input) {
  try {
    const auto faults = parse_faults(text_of(input));
    for (const auto& fault : faults) {
      require(fault.call >= 1 && fault.bytes >= 1, "calls and bytes count from 1");
      require(fault.peer < 0 || fault.rank != fault.peer, "no rank has a link with itself");
    }
    const InjectedFaults own(faults, 1, 3);
    require(own.max_written_bytes() <= (1U << 30), "the limit is one of those read");
  } catch (const Error& error) {
    require_good_sentence(error);
  }
}

void hostfile(Input input) {
  try {
    std::vector<std::string> notes;
    const auto hosts = hostfile::parse_hostfile(text_of(input), "hosts", &notes);
    require(!hosts.empty(), "a hostfile names a host");
    for (const auto& host : hosts) {
      require(!host.name.empty() && host.line >= 1, "a host has a name and a line");
      require(host.slots.value_or(0) >= 0 && host.port.value_or(1) >= 1,
              "counts and ports are no negative numbers");
    }
    // Places ranks with rules from the same text. Neither may throw anything but Error{usage}.
    const auto text = text_of(input);
    auto map_by = hostfile::MapBy{};
    if (text.find("node") != std::string::npos) map_by = hostfile::parse_map_by("node");
    if (text.find("ppr") != std::string::npos) map_by = hostfile::parse_map_by("ppr:1:node");
    const bool bounded = std::all_of(
        hosts.begin(), hosts.end(), [](const auto& host) { return host.slots.value_or(1) < 1000; });
    const bool all = bounded && text.find("all") != std::string::npos;
    const bool many = text.find("many") != std::string::npos;
    const int wanted = many ? 1 << 20 : all ? 0 : 5;
    const bool is_4 = text.find("four") != std::string::npos;
    const auto placement = hostfile::place_ranks(
        hosts, "hosts",
        {.ranks = wanted,
         .map_by = map_by,
         .rules = is_4 ? hostfile::Rules::open_mpi_4 : hostfile::Rules::open_mpi_5,
         .cores = 2,
         .cores_source = "a test"},
        [](const std::string& host) {
          const auto name = host.starts_with("me") ? hostfile::this_machine : host.substr(0, 1);
          return std::vector{name, std::string(1, host.back())};
        });
    require(wanted == 0 || placement.ranks.size() == static_cast<std::size_t>(wanted),
            "each rank that is asked for has its place");
    require(hostfile::same_places(placement, placement), "places are like themselves");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::usage, "bad input is a usage error");
    require(error.sentence().find("hosts") != std::string::npos, "the sentence names the file");
  }
}

void map_by(Input input) {
  try {
    const auto read = hostfile::parse_map_by(text_of(input));
    require(read.kind != hostfile::MapBy::Kind::ppr || read.per_host > 0, "ppr has a count");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::usage, "bad input is a usage error");
  }
  try {
    (void)hostfile::parse_rules(text_of(input));
  } catch (const Error& error) {
    require(error.code() == ErrorCode::usage, "bad input is a usage error");
  }
}

namespace {

std::string refusal_of(const std::string& weak_secret) {
  try {
    (void)bootstrap::SharedSecret::from("", weak_secret.c_str());
  } catch (const Error& error) {
    return error.sentence();
  }
  return {};
}

/// A secret of the same length and character classes: the successor of each letter and digit.
std::string like(std::string secret) {
  constexpr std::string_view all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  for (auto& c : secret) {
    if (const auto at = all.find(c); at != all.npos) c = all[(at + 1) % all.size()];
  }
  return secret;
}

}  // namespace

void secret(Input input) {
  const auto text = text_of(input);
  require(!bootstrap::SharedSecret::from("", nullptr), "no text is no secret");
  try {
    const auto shared = bootstrap::SharedSecret::from("", text.c_str());
    require(shared.has_value() == (!text.empty() && text[0] != '\0'), "no text is no secret");
    if (!shared) return;
    require(shared->fingerprint().size() == 8, "a fingerprint has 8 digits");
    require(std::string_view(text.c_str()).size() >= bootstrap::SharedSecret::min_characters,
            "a short secret is refused");
  } catch (const Error& error) {
    require_good_sentence(error);
    // The error contains the number of characters, not the characters.
    require(refusal_of(like(text)) == error.sentence(), "the sentence keeps the secret");
  }
}

}  // namespace tutti::fuzz
