#pragma once

#include <memory>
#include <string>

#include "base/log.hpp"
#include "launch/resolve.hpp"
#include "rendezvous/handshake.hpp"
#include "store/endpoint.hpp"
#include "store/side.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::store {

/// The bootstrap of a job without MPI: every rank has one connection to rank 0, proven by the
/// handshake, and each exchange is one message up and one down, so the messages at rank 0 grow
/// with the number of ranks, and every other rank has one socket.
class TcpStore final : public Bootstrap {
 public:
  struct Settings {
    explicit Settings(bootstrap::JobSecret job_secret) : secret(std::move(job_secret)) {}
    int rank = 0;
    int size = 1;
    Endpoint endpoint;
    bootstrap::JobSecret secret;
    bool has_secret = false;  ///< else whoever reaches the port is believed
    bool insecure = false;    ///< serve other hosts all the same
    std::string source;       ///< for people
  };

  /// Collective. Throws Error: timeout that names who is missing, mismatch where the ranks don't
  /// agree on their number, usage, system where the port can't be had.
  TcpStore(const Settings& settings, Log& log, Deadline deadline);
  ~TcpStore() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string source() const override { return source_; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline deadline) override;
  Bytes broadcast(const Bytes& from_root, int root, Deadline deadline) override;
  void barrier(Deadline deadline) override;

  /// Messages that this rank has sent and received up to now.
  [[nodiscard]] std::size_t messages() const;

 private:
  int rank_;
  int size_;
  std::string source_;
  std::unique_ptr<Side> side_;  ///< none where the rank is alone
};

/// What a job's ranks prove to each other: by the secret that they were given, else by what any
/// program could know.
[[nodiscard]] bootstrap::JobSecret open_secret(const std::string& job);

}  // namespace tutti::store
