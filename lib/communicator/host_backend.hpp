#pragma once

#include <map>
#include <string>
#include <vector>

#include "algorithm/schedule.hpp"
#include "communicator/backend.hpp"
#include "control/plane.hpp"
#include "engine/call_checker.hpp"
#include "engine/execution.hpp"
#include "engine/runner.hpp"
#include "transport/links.hpp"
#include "tutti/deadline.hpp"

namespace tutti {

/// Moves buffers in host memory: picks a schedule and runs it over the links.
class HostBackend final : public Backend {
 public:
  HostBackend(control::Plane& plane, transport::Links& links, engine::CallChecker& checker,
              std::size_t chunk_bytes);

  [[nodiscard]] const char* name() const override { return "cpu"; }
  void fan_out(void* buffer, std::size_t count, Type type, int root,
               const CallSettings& settings) override;
  void broadcast(void* buffer, std::size_t count, Type type, int root,
                 const CallSettings& settings) override;
  void all_reduce(const void* send, void* recv, std::size_t count, Type type, Operator op,
                  const CallSettings& settings) override;
  void send(const void* buffer, std::size_t count, Type type, int to,
            const CallSettings& settings) override;
  void recv(void* buffer, std::size_t count, Type type, int from,
            const CallSettings& settings) override;
  void send_recv(const void* send, std::size_t send_count, int to, void* recv,
                 std::size_t recv_count, int from, Type type,
                 const CallSettings& settings) override;
  void barrier(const CallSettings& settings) override;
  void finalize(const CallSettings& settings) override;
  /// Calls on host memory are done when they return.
  void synchronize(const CallSettings&) override {}
  [[nodiscard]] const std::string& latest_algorithm() const override { return latest_algorithm_; }

 private:
  using Message = std::pair<int, std::uint32_t>;  ///< peer, tag

  [[nodiscard]] algorithm::Problem problem(std::size_t count, Type type, int root) const;
  void run_collective(CallSignature call, const algorithm::Schedule& schedule,
                      engine::Memory memory, const CallSettings& settings);
  void run(engine::Execution& execution, const CallSignature& call, const CallSettings& settings);
  void require_no_verdict(const CallSignature& call) const;
  void run_barrier(const CallSignature& call, const CallSettings& settings);
  void run_messages(const CallSignature& call, const algorithm::Schedule& schedule,
                    const engine::Memory& memory, const transport::CallContext& send_call,
                    const transport::CallContext& recv_call, const CallSettings& settings);
  [[nodiscard]] transport::CallContext next_message(std::map<Message, std::uint64_t>& sequences,
                                                    const CallSignature& call,
                                                    std::uint32_t tag) const;

  control::Plane& plane_;
  transport::Links& links_;
  engine::CallChecker& checker_;
  engine::Runner runner_;
  std::size_t chunk_bytes_;
  std::vector<int> host_of_rank_;
  std::map<Message, std::uint64_t> sent_;
  std::map<Message, std::uint64_t> received_;
  std::vector<std::byte> scratch_;
  std::string latest_algorithm_;
};

}  // namespace tutti
