#include "engine/call_checker.hpp"

#include <fmt/format.h>

#include "control/call_comparison.hpp"

namespace tutti::engine {

bool CallChecker::on_peer_call(int peer, const transport::CallContext& theirs) {
  return theirs.key.kind == transport::StreamKind::collective ? check_collective(peer, theirs)
                                                              : check_message(peer, theirs);
}

bool CallChecker::check_collective(int peer, const transport::CallContext& theirs) {
  const auto history = histories_.find(theirs.key.communicator);
  if (!history) return true;  // this rank has not created the communicator yet
  const auto own = history->find(theirs.key.sequence);
  if (!own) return true;  // this rank has not reached the call yet: compared when it does
  if (own->call != theirs.signature) {
    detector_.report(control::mismatch(detector_.peers(), history->group(), own->sequence,
                                       detector_.peers().rank(), own->call, peer,
                                       theirs.signature));
    return false;
  }
  if (own->fingerprint != fingerprint(theirs.fingerprint, theirs.signature)) {
    // An earlier call differed; the peer finds out which. This call must not end before, or the job
    // might end without a report.
    compare_with(peer, theirs.key.communicator);
    return false;
  }
  return true;
}

void CallChecker::remove_message(const transport::CallContext& own) {
  std::erase_if(messages_, [&](const Message& message) { return message.own == &own; });
}

bool CallChecker::check_message(int peer, const transport::CallContext& theirs) {
  const auto opposite =
      theirs.signature.operation == Operation::send ? Operation::recv : Operation::send;
  for (const auto& [own_peer, own] : messages_) {
    if (own->key != theirs.key || own->signature.operation != opposite || own_peer != peer) {
      continue;
    }
    if (own->signature.type == theirs.signature.type &&
        own->signature.count == theirs.signature.count) {
      return true;
    }
    const auto& peers = detector_.peers();
    const int self = peers.rank();
    const auto history = histories_.find(theirs.key.communicator);
    const auto text = [&](const CallSignature& call) {
      return history ? control::describe(call, history->group()) : describe(call);
    };
    detector_.report({.code = ErrorCode::mismatch,
                      .failed_ranks = {self, peer},
                      .sentence = fmt::format("send and receive differ: {} called {}, {} called {}",
                                              peers.describe(self), text(own->signature),
                                              peers.describe(peer), text(theirs.signature)),
                      .origin = self});
    return false;
  }
  return true;
}

}  // namespace tutti::engine
