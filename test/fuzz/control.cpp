// Arbitrary bytes on a control link.
#include <sys/epoll.h>

#include <algorithm>

#include "control/consensus.hpp"
#include "control/control_link.hpp"
#include "control/message.hpp"
#include "control/router.hpp"
#include "targets.hpp"
#include "unit/transport/half_pair.hpp"

namespace tutti::fuzz {
namespace {

constexpr int size = 5;
constexpr int rank = 1;

void check_report(Input body) {
  ByteReader reader(body);
  const auto report = control::FailureReport::decode(reader, size);
  if (!report) return;
  ByteWriter writer;
  report->encode(writer);
  ByteReader again(writer.bytes());
  const auto copy = control::FailureReport::decode(again, size);
  require(copy.has_value() && again.at_end(), "a report survives encoding and decoding");
  require(copy->lost == report->lost && copy->failed_ranks == report->failed_ranks &&
              copy->code == report->code && copy->origin == report->origin,
          "a decoded report equals the original");
  require(control::speaker(*report) <= size, "the speaker is a rank, or none is left");
  require(!control::merge(report, *copy).lost.empty() || report->lost.empty(),
          "merged reports keep all deaths");
  // Any report in any order must not cause an error.
  const auto ignore = [](const auto&...) {};
  control::Consensus consensus(rank, size,
                               {.send_evidence = ignore,
                                .propose = ignore,
                                .acknowledge = ignore,
                                .commit = ignore,
                                .start_gather_timer = [] {},
                                .start_response_timer = [] {},
                                .decided = ignore});
  const auto seed = body.empty() ? 0U : std::to_integer<unsigned>(body.back());
  for (unsigned i = 0; i < 4; ++i) {
    switch ((seed >> (2 * i)) % 4) {
      case 0:
        consensus.on_evidence(*report);
        consensus.on_gather_timeout();
        break;
      case 1:
        consensus.on_proposal(report->origin, i, seed % 2 == 0, *report);
        break;
      case 2:
        consensus.on_acknowledgement(report->origin, i, *copy);
        consensus.on_response_timeout();
        break;
      default:
        consensus.on_commit(report->origin, i, *report);
    }
  }
}

void check_calls(Input body) {
  if (const auto decoded = control::decode_calls(body)) {
    const auto again =
        control::decode_calls(control::encode_calls(decoded->communicator, decoded->calls));
    require(again && again->calls.size() == decoded->calls.size(),
            "calls survive encoding and decoding");
    for (const auto& past : decoded->calls) {
      require(!describe(past.call).empty(), "a call can be described");
    }
  }
  if (const auto decoded = control::decode_acknowledgement(body, size)) {
    const auto again =
        control::decode_acknowledgement(control::encode_acknowledgement(*decoded), size);
    require(again && again->round == decoded->round &&
                again->committed.has_value() == decoded->committed.has_value() &&
                again->earlier.has_value() == decoded->earlier.has_value(),
            "an acknowledgement survives encoding and decoding");
  }
  if (const auto decoded = control::decode_status(body, size)) {
    require(!describe(decoded->status.activity.call).empty(), "a call can be described");
    const auto again = control::decode_status(control::encode_status(*decoded), size);
    require(again && again->status.unacknowledged == decoded->status.unacknowledged,
            "a status survives encoding and decoding");
  }
}

}  // namespace

void message(Input input) {
  const auto decoded = control::ControlMessage::decode(input, size);
  if (!decoded) return;
  const auto bytes = decoded->encode();
  require(std::equal(bytes.begin(), bytes.end(), input.begin(), input.end()),
          "a message has one encoding");
  int passed = 0;
  int delivered = 0;
  control::Router router(rank, size,
                         {.linked =
                              [] {
                                return std::vector<int>{0, 2, 4};
                              },
                          .pass = [&](int, const control::ControlMessage&) { ++passed; },
                          .deliver = [&](const control::ControlMessage&) { ++delivered; }});
  router.on_message(0, *decoded);
  router.on_message(2, *decoded);
  require(delivered <= 1 && passed <= 3, "a message is delivered and forwarded at most once");
  check_report(decoded->body);
  check_calls(decoded->body);
}

// The bytes of the link, split at the offset in the first byte.
void control_link(Input input) {
  if (input.empty() || input.size() > (32U << 10)) return;
  const auto cut = std::min<std::size_t>(std::to_integer<std::size_t>(input[0]), input.size() - 1);
  input = input.subspan(1);
  // Shared: it keeps no state of destroyed links.
  static Reactor reactor;
  transport::test::SocketPair pair;
  pair.limit_sending();  // so that replies are queued
  std::size_t got = 0;
  int closed = 0;
  control::ControlLink link(
      reactor, rendezvous::SecureSocket::plain(std::move(pair.one)), std::chrono::seconds(15),
      {.message =
           [&](std::span<const std::byte> bytes) {
             require(bytes.size() <= control::max_message_bytes, "a message is bounded");
             got += 4 + bytes.size();
             link.send(Bytes(bytes.begin(), bytes.end()));
           },
       .closed = [&](int) { ++closed; }});
  transport::test::RawPeer peer(std::move(pair.other));
  peer.write(input.first(cut));
  reactor.run_once(std::chrono::seconds(0));
  if (link.is_open()) peer.write(input.subspan(cut));
  reactor.run_once(std::chrono::seconds(0));
  while (!peer.read(input.size() + 1).empty()) reactor.run_once(std::chrono::seconds(0));
  require(got <= input.size(), "messages hold no more bytes than the input");
  if (input.size() % 2 == 1) return;  // the link is destroyed while open
  peer.close();
  reactor.run_once(std::chrono::seconds(0));
  reactor.run_once(std::chrono::seconds(0));
  require(closed == 1 && !link.is_open(), "the end of a link is decoded once");
  link.send(Bytes(3));
}

}  // namespace tutti::fuzz
