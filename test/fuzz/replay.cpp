// Runs each target over its corpus and over mutated inputs. It is deterministic and does not need
// libFuzzer, so every build runs it.
//
//     fuzz_replay [--only-kept] CORPUS [TARGET…]
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "targets.hpp"

namespace tutti::fuzz {
namespace {

constexpr int variants_of_each = 20;

std::vector<Bytes> read_inputs(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> inputs{{}};
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto bytes = std::as_bytes(std::span(text));
    inputs.emplace_back(bytes.begin(), bytes.end());
  }
  return inputs;
}

/// Changes a few bytes; may truncate or extend the input.
Bytes variant(Bytes bytes, std::mt19937& random) {
  const auto changes = random() % 4;
  for (unsigned i = 0; i < changes && !bytes.empty(); ++i) {
    bytes[random() % bytes.size()] = static_cast<std::byte>(random());
  }
  switch (random() % 4) {
    case 0:
      bytes.resize(random() % (bytes.size() + 1));
      break;
    case 1:
      for (auto more = random() % 16; more > 0; --more) {
        bytes.push_back(static_cast<std::byte>(random()));
      }
      break;
    default:
      break;
  }
  return bytes;
}

int replay(std::span<char* const> arguments) {
  int variants = variants_of_each;
  if (arguments.size() > 1 && std::string_view(arguments[1]) == "--only-kept") {
    variants = 0;
    arguments = arguments.subspan(1);
  }
  if (arguments.size() < 2) {
    fmt::print(stderr, "usage: fuzz_replay [--only-kept] CORPUS [TARGET…]\n");
    return 2;
  }
  std::random_device::result_type seed = 1;
  std::size_t ran = 0;
  for (const auto& target : targets) {
    const auto chosen = arguments.subspan(2);
    if (!chosen.empty() && std::ranges::find(chosen, target.name) == chosen.end()) continue;
    const auto inputs = read_inputs(std::filesystem::path(arguments[1]) / target.name);
    std::mt19937 random(seed++);
    for (const auto& input : inputs) {
      target.run(input);
      for (int i = 0; i < variants; ++i) target.run(variant(input, random));
    }
    fmt::print("{}: {} inputs kept, {} variants of each\n", target.name, inputs.size(), variants);
    ++ran;
  }
  if (ran > 0) return 0;
  fmt::print(stderr, "there is no such target\n");
  return 2;
}

}  // namespace
}  // namespace tutti::fuzz

int main(int argc, char** argv) {
  return tutti::fuzz::replay(std::span<char* const>(argv, static_cast<std::size_t>(argc)));
}
