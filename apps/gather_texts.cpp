#include "gather_texts.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

namespace tutti::app {

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine) {
  std::uint64_t longest = mine.size();
  communicator.all_reduce(in_place, std::span(&longest, 1), max);
  // All blocks have the same length. A block is the length of the text, then the text.
  const auto block = sizeof(std::uint64_t) + longest;
  const std::uint64_t length = mine.size();
  std::vector<char> out(block);
  std::memcpy(out.data(), &length, sizeof length);
  std::copy(mine.begin(), mine.end(), out.begin() + sizeof length);
  const bool is_root = communicator.rank() == 0;
  std::vector<char> in(is_root ? block * static_cast<std::size_t>(communicator.size()) : 0);
  communicator.gather(std::span<const char>(out), std::span(in), 0, {.algorithm = "binomial"});
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < in.size(); at += block) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, in.data() + at, sizeof bytes);
    texts.emplace_back(in.data() + at + sizeof bytes, bytes);
  }
  return texts;
}

}  // namespace tutti::app
