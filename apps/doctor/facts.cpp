#include "doctor/facts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tutti::app::doctor {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkFact, name, address, prefix_bits, speed_mbit, mtu, chosen)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReachFact, host, address, failure, on_same_network,
                                   lost_packet_bytes, is_ipv6)

namespace {

constexpr std::size_t head = sizeof(std::uint32_t);  // size of the length field

/// Lists the fields for both directions, encoding and decoding.
template <class F, class Visit>
void visit(F& facts, const Visit& field) {
  field("links", facts.links);
  field("own_name_addresses", facts.own_name_addresses);
  field("own_name_failure", facts.own_name_failure);
  field("locked_memory", facts.locked_memory);
  field("shared_memory", facts.shared_memory);
  field("cpus", facts.cpus);
  field("machine_cpus", facts.machine_cpus);
  field("driver_version", facts.driver_version);
  field("device_is_far", facts.device_is_far);
  field("without_peer_access", facts.without_peer_access);
  field("settings", facts.settings);
  field("launcher", facts.launcher);
  field("port_range", facts.port_range);
  field("ports", facts.ports);
  field("unsafe_port", facts.unsafe_port);
  field("clock_ns", facts.clock_ns);
  field("rdma", facts.rdma);
  field("token", facts.token);
  field("nonce_address", facts.nonce_address);
  field("reached", facts.reached);
  field("single_copy_failure", facts.single_copy_failure);
}

}  // namespace

Bytes encode(const Facts& facts) {
  json object;
  visit(facts, [&](const char* name, const auto& value) { object[name] = value; });
  // Host names and variables may have any encoding.
  const auto text = object.dump(-1, ' ', false, json::error_handler_t::replace);
  const auto info = facts.info.encode();
  ByteWriter writer;
  writer.put(static_cast<std::uint32_t>(info.size()));
  writer.put(std::span<const std::byte>(info));
  writer.put(std::as_bytes(std::span(text)));
  return std::move(writer).bytes();
}

std::optional<Facts> decode(const Bytes& bytes) {
  ByteReader reader(bytes);
  const auto peer_info_bytes = reader.get<std::uint32_t>();
  if (!reader.ok() || peer_info_bytes > bytes.size() - head) return std::nullopt;
  const auto peer_info_end = bytes.begin() + head + peer_info_bytes;
  auto info = rendezvous::PeerInfo::decode(Bytes(bytes.begin() + head, peer_info_end));
  if (!info) return std::nullopt;
  Facts facts;
  facts.info = std::move(*info);
  try {
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    const auto object = json::parse(text + head + peer_info_bytes, text + bytes.size());
    visit(facts, [&](const char* name, auto& value) { object.at(name).get_to(value); });
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return facts;
}

}  // namespace tutti::app::doctor
