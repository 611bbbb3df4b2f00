#pragma once

#include <span>
#include <vector>

#include "engine/execution.hpp"
#include "transport/links.hpp"

namespace tutti::engine {

/// What a send, a recv, or both at once have on their way: at most one message out and one in,
/// which need no schedule. An empty message is there when its call has been named.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// `to` and `from` are ranks of the job; call and memory stay until it is done.
  void send(transport::Links& links, int to, const transport::CallContext& call,
            std::span<const std::byte> bytes);
  void receive(transport::Links& links, int from, const transport::CallContext& call,
               std::span<std::byte> bytes);

  [[nodiscard]] bool done() const { return send_.done() && recv_.done(); }
  [[nodiscard]] std::vector<Awaited> awaited() const;

 private:
  transport::SendRequest send_;
  transport::RecvRequest recv_;
};

}  // namespace tutti::engine
