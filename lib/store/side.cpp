#include "store/side.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/bytes.hpp"

namespace tutti::store {

std::uint32_t remaining_ms(Deadline deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::duration_cast<milliseconds>(deadline.remaining());
  return static_cast<std::uint32_t>(std::min(left, milliseconds(std::chrono::hours(1))).count());
}

std::optional<std::vector<Bytes>> split_gathered(const Bytes& table, int size) {
  std::vector<Bytes> result;
  std::span<const std::byte> rest(table);
  for (int rank = 0; rank < size; ++rank) {
    ByteReader reader(rest);
    const auto length = reader.get<std::uint32_t>();
    if (!reader.ok() || length > reader.left()) return std::nullopt;
    rest = rest.last(reader.left());
    result.emplace_back(rest.begin(), rest.begin() + length);
    rest = rest.subspan(length);
  }
  if (!rest.empty()) return std::nullopt;
  return result;
}

Bytes encode(const Error& error) {
  constexpr std::size_t max_failed_ranks = 64;
  constexpr std::size_t max_text = 4096;
  const auto count = std::min(error.failed_ranks().size(), max_failed_ranks);
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(error.code())).put(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    writer.put(static_cast<std::uint32_t>(error.failed_ranks()[i]));
  }
  return std::move(writer.put_string(error.sentence().substr(0, max_text))).bytes();
}

Error decode_error(const Bytes& bytes) {
  ByteReader reader(bytes);
  const auto code = reader.get<std::uint8_t>();
  const auto count = reader.get<std::uint8_t>();
  std::vector<int> failed_ranks;
  for (int i = 0; i < count && reader.ok(); ++i) {
    failed_ranks.push_back(static_cast<int>(reader.get<std::uint32_t>()));
  }
  const auto sentence = reader.get_string();
  if (!reader.ok() || code > static_cast<std::uint8_t>(ErrorCode::system)) {
    return {ErrorCode::mismatch,
            "rank 0 sent a malformed error: it runs another version "
            "of tutti"};
  }
  return {static_cast<ErrorCode>(code), sentence, std::move(failed_ranks)};
}

JoinRequest JoinRequest::own(int size) {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return {.size = static_cast<std::uint32_t>(size),
          .pid = static_cast<std::uint32_t>(::getpid()),
          .host = name.data()};
}

Bytes JoinRequest::encode() const {
  ByteWriter writer;
  return std::move(writer.put(size).put(pid).put_string(host)).bytes();
}

JoinRequest JoinRequest::decode(const Bytes& bytes) {
  ByteReader reader(bytes);
  JoinRequest result;
  result.size = reader.get<std::uint32_t>();
  result.pid = reader.get<std::uint32_t>();
  result.host = reader.get_string();
  return result;
}

std::string JoinRequest::describe(int rank) const {
  return fmt::format("rank {} ({}, pid {})", rank, host, pid);
}

}  // namespace tutti::store
