#include "control/group.hpp"

#include <fmt/format.h>

namespace tutti::control {
namespace {

// A longer list would hide the rest of the sentence.
constexpr std::size_t max_runs = 8;

}  // namespace

std::string Group::world_text() const {
  // Three or more ranks in a row are one run.
  std::vector<std::string> runs;
  for (std::size_t first = 0; first < world.size() && runs.size() <= max_runs;) {
    auto last = first;
    while (last + 1 < world.size() && world[last + 1] == world[last] + 1) ++last;
    if (last - first < 2) {
      runs.push_back(std::to_string(world[first++]));
      continue;
    }
    runs.push_back(fmt::format("{} to {}", world[first], world[last]));
    first = last + 1;
  }
  if (runs.size() > max_runs) runs.back() = "others";
  auto text = world.size() == 1 ? std::string("rank ") : std::string("ranks ");
  for (std::size_t run = 0; run < runs.size(); ++run) {
    if (run > 0) text += run + 1 == runs.size() ? " and " : ", ";
    text += runs[run];
  }
  return text;
}

bool Group::renumbers() const {
  for (int member = 0; member < size(); ++member) {
    if (world_of(member) != member) return true;
  }
  return false;
}

std::string describe(const CallSignature& call, const Group& group) {
  // A root from a peer's message may be out of range.
  const bool is_member = call.root >= 0 && call.root < group.size();
  if (!is_member || !group.renumbers()) return tutti::describe(call);
  auto translated = call;
  translated.root = group.world_of(call.root);
  const auto text = tutti::describe(translated);
  translated.root = -1;
  return text == tutti::describe(translated) ? text : text + " of the job";
}

}  // namespace tutti::control
