#pragma once

#include <memory>
#include <string>

#include "base/log.hpp"
#include "launch/resolve.hpp"
#include "rendezvous/handshake.hpp"
#include "store/side.hpp"
#include "store/store_address.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::store {

/// Bootstrap of a job without MPI. Every rank has one authenticated connection to rank 0; an
/// operation is one message to rank 0 and one back, so rank 0 handles O(n) messages and all other
/// ranks have one socket.
class TcpStore final : public Bootstrap {
 public:
  struct Settings {
    explicit Settings(bootstrap::JobSecret job_secret) : secret(std::move(job_secret)) {}
    int rank = 0;
    int size = 1;
    StoreAddress store_address;
    bootstrap::JobSecret secret;
    bool has_secret = false;  ///< false: connections are not authenticated
    bool insecure = false;    ///< accept other hosts without a secret
    std::string source;       ///< for messages
  };

  /// Collective. Throws Error: timeout that names the missing ranks, mismatch if the ranks have
  /// different sizes, usage, system if rank 0 cannot listen.
  TcpStore(const Settings& settings, Log& log, Deadline deadline);
  ~TcpStore() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string source() const override { return source_; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline deadline) override;
  Bytes broadcast(const Bytes& from_root, int root, Deadline deadline) override;
  void barrier(Deadline deadline) override;

  /// Messages sent and received by this rank.
  [[nodiscard]] std::size_t messages() const;

 private:
  int rank_;
  int size_;
  std::string source_;
  std::unique_ptr<Side> side_;  ///< null if the job has one rank
};

/// The secret for jobs without a given one; it is derived from public data and authenticates
/// nothing.
[[nodiscard]] bootstrap::JobSecret open_secret(const std::string& job);

}  // namespace tutti::store
