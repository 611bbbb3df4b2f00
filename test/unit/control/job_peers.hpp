#pragma once

#include <string>
#include <vector>

#include "rendezvous/peers.hpp"
#include "tutti/version.hpp"

namespace tutti::control::test {

/// Peers of a job in which rank r runs on host n(r+1).
inline rendezvous::Peers job_peers(int rank, int size) {
  std::vector<rendezvous::PeerInfo> infos;
  for (int i = 1; i <= size; ++i) {
    rendezvous::PeerInfo info;
    info.version = version_string;
    const auto name = "n" + std::to_string(i);
    info.host = {"identity of " + name, name, "pids of " + name};
    info.pid = 100;
    infos.push_back(std::move(info));
  }
  return {rank, std::move(infos), {}};
}

}  // namespace tutti::control::test
