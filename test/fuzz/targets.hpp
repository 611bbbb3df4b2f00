#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.hpp"

/// Functions that parse bytes or text from outside; each accepts any input. Run by libFuzzer
/// (libfuzzer_main.cpp) or over the corpus (replay.cpp).
namespace tutti::fuzz {

using Input = std::span<const std::byte>;

struct Target {
  std::string_view name;  ///< and name of its folder in corpus/
  void (*run)(Input);
};

void handshake(Input input);
void peer_info(Input input);
void interfaces(Input input);
void frame(Input input);
void incoming(Input input);
void ring(Input input);
void outgoing(Input input);
void answers(Input input);
void shared_link(Input input);
void message(Input input);
void control_link(Input input);
void store(Input input);
void endpoint(Input input);
void values(Input input);
void environment(Input input);
void fault(Input input);
void hostfile(Input input);
void map_by(Input input);
void secret(Input input);

inline constexpr std::array targets{
    Target{"handshake", handshake},
    Target{"peer_info", peer_info},
    Target{"interfaces", interfaces},
    Target{"frame", frame},
    Target{"incoming", incoming},
    Target{"outgoing", outgoing},
    Target{"message", message},
    Target{"control_link", control_link},
    Target{"values", values},
    Target{"environment", environment},
    Target{"fault", fault},
    Target{"hostfile", hostfile},
    Target{"map_by", map_by},
    Target{"secret", secret},
    Target{"store", store},
    Target{"endpoint", endpoint},
    Target{"ring", ring},
    Target{"answers", answers},
    Target{"shared_link", shared_link},
};

/// Aborts the process if `holds` is false, which libFuzzer reports.
inline void require(bool holds, const char* sentence) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", sentence);
  std::abort();
}

/// The rest of the input as text.
inline std::string text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

}  // namespace tutti::fuzz
