#include "rendezvous/host_identity.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/system_error.hpp"
#include "base/text_file.hpp"

namespace tutti::rendezvous {
namespace {

std::string read_link(const char* path) {
  std::array<char, 128> target{};
  const auto length = ::readlink(path, target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

HostIdentity find_host_identity(const Environment& environment) {
  HostIdentity result;
  result.pid_namespace = read_link("/proc/self/ns/pid");

  const auto text = read_text_file("/proc/sys/kernel/random/boot_id").value_or("");
  std::string_view lines = text;
  const std::string boot_id(take_line(lines));
  if (boot_id.empty() && environment.host_id.empty()) {
    throw Error(
        ErrorCode::system,
        "/proc/sys/kernel/random/boot_id can't be read: mount /proc, or set TUTTI_HOST_ID to "
        "a name that is unique to each host");
  }
  // Pid namespaces are comparable under one kernel only, so not without a boot id.
  result.pid_namespace = boot_id.empty() ? std::string() : result.pid_namespace + "@" + boot_id;

  if (!environment.host_id.empty()) {
    result.identity = "TUTTI_HOST_ID=" + environment.host_id;
    result.name = environment.host_id;
    return result;
  }
  result.identity = fmt::format("{} {} {}", boot_id, read_link("/proc/self/ns/net"),
                                read_link("/proc/self/ns/ipc"));
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    throw system_error("can't read this host's name", errno);
  }
  result.name = name.data();
  return result;
}

}  // namespace tutti::rendezvous
