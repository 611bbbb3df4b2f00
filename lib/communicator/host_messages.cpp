// HostBackend's calls for messages.
#include <fmt/format.h>

#include "base/error_builder.hpp"
#include "communicator/arguments.hpp"
#include "communicator/host_backend.hpp"
#include "host_pending.hpp"

namespace tutti {

transport::StreamKey HostBackend::message_key(std::uint32_t tag, std::uint64_t sequence) const {
  return {.communicator = group().id,
          .kind = transport::StreamKind::message,
          .tag = tag,
          .sequence = sequence};
}

engine::Messages HostBackend::messages_of(const Message& message, const CallSettings& settings) {
  const bool sends = message.operation != Operation::recv;
  const bool receives = message.operation != Operation::send;
  const auto element = size_of(message.type);
  const auto* const out = static_cast<const std::byte*>(message.send);
  auto* const in = static_cast<std::byte*>(message.recv);
  const auto sent = [&](int to, std::size_t count) -> CallSignature {
    return {.operation = Operation::send, .type = message.type, .root = to, .count = count};
  };
  engine::Messages messages;
  if (sends && receives && message.to == group().rank) {
    messages.own = {.from = {out, message.send_count * element}, .to = in};
    return messages;
  }
  // First, because it may throw.
  const bool names_sender = receives && message.from != any_rank;
  const auto key = message_key(
      settings.tag, names_sender ? numbers_.next_received(message.from, settings.tag) : 0);
  if (sends) {
    messages.out = {
        .to = group().world_of(message.to),
        .call = {.key = message_key(settings.tag, numbers_.next_sent(message.to, settings.tag)),
                 .signature = sent(message.to, message.send_count)},
        .bytes = {out, message.send_count * element}};
  }
  if (receives && !names_sender) {
    auto order = numbers_.order_of(settings.tag);
    order->pending.fetch_add(1, std::memory_order_relaxed);
    messages.any = {.order = std::move(order),
                    .call = {.key = key,
                             .signature = {.operation = Operation::recv,
                                           .type = message.type,
                                           .count = message.recv_count}},
                    .bytes = {in, message.recv_count * element}};
  } else if (receives) {
    messages.in = {
        .from = group().world_of(message.from),
        .call = {.key = key,
                 .signature = {.operation = Operation::recv,
                               .type = message.type,
                               .root = message.from,
                               .count = message.recv_count}},
        .senders_call = {.key = key, .signature = sent(group().rank, message.recv_count)},
        .bytes = {in, message.recv_count * element}};
  }
  return messages;
}

void HostBackend::run(const Message& message, const CallSettings& settings) {
  const auto signature = signature_of(message);
  if (message.operation != Operation::recv) require_no_failure(signature);
  auto messages = messages_of(message, settings);
  const auto past = history_->begin_other(signature);
  try {
    if (progress_.try_inline(messages)) return history_->end_latest(past.ticket);
  } catch (const std::exception& error) {
    end_failed(past, error);
    throw;
  }
  blocking_.reset();
  blocking_.work.messages = messages;
  begin(blocking_, past, settings);
  progress_.run(blocking_);
  if (messages.any) latest_source_ = source_of(blocking_.work.messages);
}

std::unique_ptr<Pending> HostBackend::start(const Message& message, const CallSettings& settings) {
  progress_.make_progress_thread();
  const auto signature = signature_of(message);
  if (message.operation != Operation::recv) require_no_failure(signature);
  auto task = std::make_shared<engine::Task>(history_);
  task->work.messages = messages_of(message, settings);
  begin(*task, history_->begin_other(signature), settings);
  return start(task);
}

/// Each rank hears how many messages every other has sent it, and counts what it has received.
void HostBackend::require_all_received(const CallSettings& settings) {
  const auto size = static_cast<std::size_t>(group().size());
  if (size == 1) return;
  const auto sent = numbers_.sent();
  const auto received = numbers_.received();
  std::vector<std::uint64_t> due(size);
  const CheckedCollective exchange{.operation = Operation::all_to_all,
                                   .type = Type::u64,
                                   .count = 1,
                                   .send = sent.data(),
                                   .recv = due.data()};
  run_scheduled(exchange, {.timeout = settings.timeout});
  for (std::size_t peer = 0; peer < size; ++peer) {
    if (due[peer] == received[peer]) continue;
    const auto& peers = detector_.peers();
    const int from = group().world_of(static_cast<int>(peer));
    const auto error = detector_.report_and_wait(
        {.code = ErrorCode::mismatch,
         .failed_ranks = {from, peers.rank()},
         .sentence = fmt::format("{} has sent {} messages to {}, which has received {} of them: "
                                 "each send needs its recv",
                                 peers.describe(from), due[peer], peers.describe(peers.rank()),
                                 received[peer]),
         .origin = peers.rank()});
    throw ErrorBuilder(error)
        .in(describe(CallSignature{.operation = Operation::finalize}),
            history_->activity().sequence)
        .error();
  }
}

}  // namespace tutti
