// Messages on device memory.
#include <fmt/format.h>

#include <iterator>
#include <list>
#include <vector>

#include "cases.hpp"
#include "numbers.hpp"

namespace tutti::gpu_test {
namespace {

/// Two messages to each neighbour and from each, all sends before all receives on every rank.
std::string check_messages_together(Communicator& communicator, device::DeviceMemory& memory,
                                    std::size_t count) {
  const int rank = communicator.rank();
  const int size = communicator.size();
  std::vector<int> peers{(rank + 1) % size, (rank + size - 1) % size};
  if (peers[0] == peers[1]) peers.pop_back();
  constexpr std::size_t each = 2;
  const auto source_of = [&](int from, int to, std::size_t number) {
    const auto seed = (static_cast<std::size_t>(from * size + to) * each + number) * 7 + 1;
    return contribution({.type = Type::i32, .seed = seed, .ranks = size}, from, 0, count);
  };
  std::vector<Message> messages;
  std::list<DeviceBuffer> buffers;
  for (const auto operation : {Operation::send, Operation::recv}) {
    for (const int peer : peers) {
      for (std::size_t number = 0; number < each; ++number) {
        auto& buffer = buffers.emplace_back(memory, count * 4);
        Message message{.operation = operation, .type = Type::i32, .memory = Memory::device};
        if (operation == Operation::send) {
          buffer.upload(source_of(rank, peer, number));
          message.send = buffer.data();
          message.send_count = count;
          message.to = peer;
        } else {
          buffer.poison();
          message.recv = buffer.data();
          message.recv_count = count;
          message.from = peer;
        }
        messages.push_back(message);
      }
    }
  }
  communicator.start(messages, {.stream = memory.stream()}).wait();
  auto received = std::next(buffers.begin(), static_cast<std::ptrdiff_t>(peers.size() * each));
  for (const int peer : peers) {
    for (std::size_t number = 0; number < each; ++number, ++received) {
      if (received->download() == source_of(peer, rank, number)) continue;
      return fmt::format("message {} of {} i32 from rank {}, of several together: wrong", number,
                         count, peer);
    }
  }
  return {};
}

}  // namespace

std::string check_messages(Communicator& communicator, device::DeviceMemory& memory,
                           const std::vector<std::size_t>& counts) {
  const int rank = communicator.rank();
  const int size = communicator.size();
  const int next = (rank + 1) % size;
  const int before = (rank + size - 1) % size;
  for (const auto count : counts) {
    const Source source{.type = Type::i32, .seed = count, .ranks = size};
    DeviceBuffer send(memory, count * 4);
    DeviceBuffer recv(memory, count * 4);
    send.upload(contribution(source, rank, 0, count));
    const auto due = contribution(source, before, 0, count);
    Message message{.operation = Operation::send_recv,
                    .type = Type::i32,
                    .send = send.data(),
                    .send_count = count,
                    .to = next,
                    .recv = recv.data(),
                    .recv_count = count,
                    .from = before,
                    .memory = Memory::device};
    const CallOptions options{.stream = memory.stream()};
    for (const bool started : {false, true}) {
      recv.poison();
      if (started) {
        communicator.start(message, options).wait();
      } else {
        communicator.run(message, options);
        communicator.synchronize(memory.stream());
      }
      if (recv.download() != due) return fmt::format("send_recv of {} i32: wrong", count);
    }
    if (size == 1) continue;
    // In the ring order; the last rank receives first.
    recv.poison();
    message.operation = rank + 1 == size ? Operation::recv : Operation::send;
    communicator.run(message, options);
    message.operation = rank + 1 == size ? Operation::send : Operation::recv;
    communicator.run(message, options);
    communicator.synchronize(memory.stream());
    if (recv.download() != due) return fmt::format("send and recv of {} i32: wrong", count);
    if (auto wrong = check_messages_together(communicator, memory, count); !wrong.empty()) {
      return wrong;
    }
  }
  return {};
}

}  // namespace tutti::gpu_test
