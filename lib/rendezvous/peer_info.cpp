#include "rendezvous/peer_info.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <charconv>

#include "base/text_file.hpp"
#include "rendezvous/open_files.hpp"
#include "tutti/error.hpp"
#include "tutti/version.hpp"

namespace tutti::rendezvous {
namespace {

constexpr std::uint32_t peer_info_magic = 0x44524354;  // "TCRD"
constexpr std::size_t max_settings = 64;
constexpr std::size_t max_addresses = 128;
constexpr std::size_t max_devices = 64;
constexpr std::size_t max_quotas = 64;

void find_usable_cores(PeerInfo& info) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) {
    info.cores = static_cast<std::uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
    return;
  }
  info.cores = static_cast<std::uint32_t>(CPU_COUNT(&set));
  while (info.first_core < CPU_SETSIZE && !CPU_ISSET(info.first_core, &set)) ++info.first_core;
}

}  // namespace

Bytes PeerInfo::encode() const {
  ByteWriter writer;
  writer.put(peer_info_magic).put_string(version);
  writer.put(static_cast<std::uint16_t>(settings.size()));
  for (const auto& [key, value] : settings) writer.put_string(key).put_string(value);
  writer.put_string(host.identity).put_string(host.name).put_string(host.pid_namespace);
  writer.put(pid)
      .put(process_start)
      .put(cores)
      .put(first_core)
      .put(open_files_limit)
      .put(open_files);
  writer.put(static_cast<std::uint16_t>(devices.size()));
  for (const auto& each : devices) {
    writer.put_string(each.uuid).put_string(each.name).put_string(each.bus_id);
    writer.put(static_cast<std::uint8_t>(each.is_slice));
  }
  writer.put(static_cast<std::uint8_t>(device.has_value())).put(device.value_or(0));
  writer.put_string(no_device_reason).put(nccl_version).put_string(no_nccl_reason);
  writer.put(static_cast<std::uint16_t>(addresses.size()));
  for (const auto& address : addresses) address.encode(writer);
  writer.put_string(failure).put(static_cast<std::uint8_t>(failure_is_usage));
  writer.put(static_cast<std::uint16_t>(cpu_quotas.size()));
  for (const auto& quota : cpu_quotas) {
    writer.put(quota.millicores).put_string(quota.group);
    writer.put_string(quota.identity).put_string(quota.setting);
  }
  return std::move(writer).bytes();
}

std::optional<PeerInfo> PeerInfo::decode(const Bytes& bytes) {
  ByteReader reader(bytes);
  PeerInfo info;
  if (reader.get<std::uint32_t>() != peer_info_magic) return std::nullopt;
  info.version = reader.get_string();
  if (!reader.ok()) return std::nullopt;
  if (info.version != version_string) return info;

  const auto setting_count = reader.get<std::uint16_t>();
  if (setting_count > max_settings) return std::nullopt;
  for (int i = 0; i < setting_count; ++i) {
    auto key = reader.get_string();
    info.settings[std::move(key)] = reader.get_string();
  }
  info.host.identity = reader.get_string();
  info.host.name = reader.get_string();
  info.host.pid_namespace = reader.get_string();
  info.pid = reader.get<std::uint32_t>();
  info.process_start = reader.get<std::uint64_t>();
  info.cores = reader.get<std::uint32_t>();
  info.first_core = reader.get<std::uint32_t>();
  info.open_files_limit = reader.get<std::uint64_t>();
  info.open_files = reader.get<std::uint64_t>();
  const auto device_count = reader.get<std::uint16_t>();
  if (device_count > max_devices) return std::nullopt;
  for (int i = 0; i < device_count; ++i) {
    PeerDevice device;
    device.uuid = reader.get_string();
    device.name = reader.get_string();
    device.bus_id = reader.get_string();
    device.is_slice = reader.get<std::uint8_t>() != 0;
    info.devices.push_back(std::move(device));
  }
  const bool has_device = reader.get<std::uint8_t>() != 0;
  const auto device = reader.get<std::uint32_t>();
  if (has_device && device >= device_count) return std::nullopt;
  if (has_device) info.device = device;
  info.no_device_reason = reader.get_string();
  info.nccl_version = reader.get<std::uint32_t>();
  info.no_nccl_reason = reader.get_string();
  const auto address_count = reader.get<std::uint16_t>();
  if (address_count > max_addresses) return std::nullopt;
  for (int i = 0; i < address_count; ++i) {
    const auto address = SocketAddress::decode(reader);
    if (!address) return std::nullopt;
    info.addresses.push_back(*address);
  }
  info.failure = reader.get_string();
  info.failure_is_usage = reader.get<std::uint8_t>() != 0;
  const auto quota_count = reader.get<std::uint16_t>();
  if (quota_count > max_quotas) return std::nullopt;
  for (int i = 0; i < quota_count; ++i) {
    CpuQuota quota;
    quota.millicores = reader.get<std::uint32_t>();
    quota.group = reader.get_string();
    quota.identity = reader.get_string();
    quota.setting = reader.get_string();
    info.cpu_quotas.push_back(std::move(quota));
  }
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return info;
}

PeerInfo make_peer_info(const Environment& environment) {
  PeerInfo info;
  info.version = version_string;
  info.settings = environment.agreed_settings();
  info.host = find_host_identity(environment);
  info.pid = static_cast<std::uint32_t>(::getpid());
  info.process_start = process_start_ticks(info.pid);
  find_usable_cores(info);
  info.cpu_quotas = find_cpu_quotas();
  if (info.cpu_quotas.size() > max_quotas) info.cpu_quotas.resize(max_quotas);
  info.open_files_limit = raised_file_limit();
  info.open_files = count_open_files();
  return info;
}

std::uint64_t process_start_ticks(std::uint32_t pid) {
  const auto text = read_text_file(fmt::format("/proc/{}/stat", pid).c_str()).value_or("");
  // The second field is the program's name in parentheses; it may contain blanks and parentheses.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  auto fields = std::string_view(text).substr(name_end + 1);
  constexpr int fields_before_start = 19;  // state (field 3) to itrealvalue (field 21), proc(5)
  for (int i = 0; i < fields_before_start; ++i) take_word(fields);
  const auto field = take_word(fields);
  std::uint64_t start = 0;
  std::from_chars(field.data(), field.data() + field.size(), start);
  return start;
}

void require_agreement(const std::vector<PeerInfo>& infos) {
  for (std::size_t rank = 1; rank < infos.size(); ++rank) {
    if (infos[rank].version != infos[0].version) {
      throw Error(
          ErrorCode::mismatch,
          fmt::format("rank {} runs tutti {} and rank 0 runs tutti {}: install one version on "
                      "all hosts",
                      rank, infos[rank].version, infos[0].version),
          {0, static_cast<int>(rank)});
    }
    for (const auto& [key, value] : infos[0].settings) {
      const auto found = infos[rank].settings.find(key);
      const auto theirs = found == infos[rank].settings.end() ? std::string() : found->second;
      if (theirs == value) continue;
      throw Error(
          ErrorCode::mismatch,
          fmt::format(
              "{} is \"{}\" on rank {} ({}) and \"{}\" on rank 0 ({}): set the same value on "
              "all ranks (mpirun: -x {})",
              key, theirs, rank, infos[rank].host.name, value, infos[0].host.name, key),
          {0, static_cast<int>(rank)});
    }
  }
}

}  // namespace tutti::rendezvous
