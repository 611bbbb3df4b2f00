#include "bootstrap/shared_secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "base/system_error.hpp"
#include "bootstrap/keyed_hash.hpp"

namespace tutti::bootstrap {
namespace {

constexpr std::string_view variable = "TUTTI_SECRET=";

struct EnvironmentBlock {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// The process's initial environment, as shown by /proc/PID/environ.
EnvironmentBlock initial_environment() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // The second field is the program's name in parentheses; it may contain blanks and parentheses.
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  constexpr int fields_before_it = 47;  // state (field 3) to arg_end (field 49), proc(5)
  for (int i = 0; i < fields_before_it; ++i) fields >> skipped;
  EnvironmentBlock block;
  fields >> block.begin >> block.end;
  return fields ? block : EnvironmentBlock{};
}

bool is_blank(std::byte value) {
  const auto c = static_cast<char>(value);
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void check_file(const std::string& file, int fd) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::usage, fmt::format("TUTTI_SECRET_FILE={} {}", file, why));
  };
  struct stat status {};
  if (::fstat(fd, &status) != 0) refuse("can't be checked: " + errno_text(errno));
  if (!S_ISREG(status.st_mode)) refuse("is not a regular file: set the path of one");
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    refuse(fmt::format("belongs to user {}: it must belong to you or root", status.st_uid));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refuse(fmt::format("is accessible to other users (mode {:04o}): run chmod 600 on it",
                       status.st_mode & 07777U));
  }
}

struct FileContent {
  std::unique_ptr<SecretMemory> memory;
  std::size_t characters;
};

FileContent read_file(const std::string& file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!descriptor) {
    throw Error(ErrorCode::usage,
                fmt::format("TUTTI_SECRET_FILE={} can't be opened: {}", file, errno_text(errno)));
  }
  check_file(file, descriptor.get());
  // One more than the maximum, to detect a file that is too long.
  auto memory = std::make_unique<SecretMemory>(SharedSecret::max_characters + 1);
  auto room = memory->bytes();
  while (!room.empty()) {
    const auto got = ::read(descriptor.get(), room.data(), room.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error(ErrorCode::usage,
                  fmt::format("TUTTI_SECRET_FILE={} can't be read: {}", file, errno_text(errno)));
    }
    if (got == 0) break;
    room = room.subspan(static_cast<std::size_t>(got));
  }
  const auto characters = memory->bytes().size() - room.size();
  return {std::move(memory), characters};
}

Hash labelled_hash(std::span<const std::byte> key, std::string_view label,
                   std::span<const std::byte> rest) {
  ByteWriter message;
  message.put_string(label).put(rest);
  return hmac_sha256(key, message.bytes());
}

}  // namespace

const char* hide_secret_of_environment() {
  char** entry = environ;
  while (entry != nullptr && *entry != nullptr && !std::string_view(*entry).starts_with(variable)) {
    ++entry;
  }
  if (entry == nullptr || *entry == nullptr) return nullptr;
  const auto block = initial_environment();
  const auto place = reinterpret_cast<std::uintptr_t>(*entry);
  if (place >= block.begin && place < block.end) {
    const std::string_view old(*entry);
    // The environment references it from now on, for the life of the process.
    auto* const memory = SecretMemory(old.size() + 1).release();
    std::memcpy(memory, old.data(), old.size());
    char* const outdated = *entry;
    *entry = reinterpret_cast<char*>(memory);
    ::explicit_bzero(outdated + variable.size(), old.size() - variable.size());
  }
  const char* const value = *entry + variable.size();
  return *value == '\0' ? nullptr : value;
}

std::optional<SharedSecret> SharedSecret::from(const std::string& file, const char* text) {
  if (!file.empty()) {
    auto content = read_file(file);
    return SharedSecret(std::move(content.memory), content.characters, "TUTTI_SECRET_FILE=" + file);
  }
  if (text == nullptr || *text == '\0') return std::nullopt;
  const auto length = std::min(std::strlen(text), max_characters + 1);
  auto memory = std::make_unique<SecretMemory>(max_characters + 1);
  std::memcpy(memory->bytes().data(), text, length);
  return SharedSecret(std::move(memory), length, "TUTTI_SECRET");
}

SharedSecret::SharedSecret(std::unique_ptr<SecretMemory> memory, std::size_t characters,
                           std::string_view source)
    : memory_(std::move(memory)) {
  const auto all = std::as_const(*memory_).bytes().first(characters);
  std::size_t end = all.size();
  while (end > 0 && all[end - 1] == std::byte{0}) --end;  // a file may end with zeros
  if (end > max_characters) {
    throw Error(ErrorCode::usage, fmt::format("{} has more than {} characters: use a shorter "
                                              "secret, such as `openssl rand -hex 32` prints",
                                              source, max_characters));
  }
  while (end > 0 && is_blank(all[end - 1])) --end;
  while (begin_ < end && is_blank(all[begin_])) ++begin_;
  length_ = end - begin_;
  std::bitset<256> seen;
  for (const auto character : text()) seen.set(std::to_integer<std::size_t>(character));
  const auto different = seen.count();
  if (length_ < min_characters || different < min_different_characters) {
    throw Error(ErrorCode::usage,
                fmt::format("{} is too weak a secret ({} characters, {} different ones): use at "
                            "least {} random ones, such as `openssl rand -hex 32` prints",
                            source, length_, different, min_characters));
  }
}

JobSecret SharedSecret::for_purpose(std::string_view purpose) const {
  const auto mac = labelled_hash(text(), "tutti job id", std::as_bytes(std::span(purpose)));
  std::array<std::byte, JobSecret::id_bytes> id{};
  std::copy_n(mac.begin(), id.size(), id.begin());
  return for_id(id);
}

JobSecret SharedSecret::for_id(const std::array<std::byte, JobSecret::id_bytes>& id) const {
  auto mac = labelled_hash(text(), "tutti job secret", id);
  JobSecret result(mac, id);
  ::explicit_bzero(mac.data(), mac.size());
  return result;
}

std::string SharedSecret::fingerprint() const {
  const auto mac = labelled_hash(text(), "tutti fingerprint", {});
  std::string result;
  for (std::size_t i = 0; i < 4; ++i) {
    result += fmt::format("{:02x}", std::to_integer<unsigned>(mac[i]));
  }
  return result;
}

}  // namespace tutti::bootstrap
