// Messages that one call starts.
#include <fmt/format.h>

#include <array>
#include <span>
#include <vector>

#include "numbered_messages.hpp"
#include "support/catch.hpp"

namespace tutti::test {

TEST_CASE("messages that are started together do not wait for each other") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator();
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{1000003}}) {
      std::vector<Buffer<std::uint8_t>> buffers;
      buffers.reserve(4);
      std::vector<Message> messages;
      // All ranks send first, more than links keep.
      for (const auto operation : {Operation::send, Operation::recv}) {
        for (int peer = 0; peer < 3; ++peer) {
          if (peer == rank.rank()) continue;
          auto& buffer = buffers.emplace_back(count, 0);
          buffer.fill_from(operation == Operation::send ? source_of(rank.rank(), peer) : 999999);
          Message message{.operation = operation};
          if (operation == Operation::send) {
            message.send = buffer.data();
            message.send_count = count;
            message.to = peer;
          } else {
            message.recv = buffer.data();
            message.recv_count = count;
            message.from = peer;
          }
          messages.push_back(message);
        }
      }
      communicator.start(messages).wait();
      auto received = buffers.begin() + 2;
      for (int peer = 0; peer < 3; ++peer) {
        if (peer == rank.rank()) continue;
        received->require_from(source_of(peer, rank.rank()), fmt::format("from rank {}", peer));
        ++received;
      }
    }
    expect(!communicator.start(std::span<const Message>()).is_active(), "no message is a call");
    std::array<Message, 2> mixed{
        Message{.operation = Operation::send, .to = (rank.rank() + 1) % 3},
        Message{
            .operation = Operation::recv, .from = (rank.rank() + 2) % 3, .memory = Memory::device}};
    try {
      communicator.start(mixed).wait();
      expect(false, "messages in both memories were started");
    } catch (const Error& error) {
      expect(error.code() == ErrorCode::usage, error.what());
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
