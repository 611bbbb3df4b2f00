// Input of the store of jobs without MPI: from members and from settings.
#include <algorithm>

#include "base/reactor.hpp"
#include "store/channel.hpp"
#include "store/side.hpp"
#include "store/store_address.hpp"
#include "targets.hpp"
#include "tutti/error.hpp"
#include "unit/transport/half_pair.hpp"

namespace tutti::fuzz {
namespace {

constexpr std::size_t max_payload = 2048;
constexpr std::size_t max_input = 32 << 10;  // fits into the socket's buffer

/// The bytes of a channel, split at the offset in the first byte.
void check_channel(Input input) {
  if (input.empty() || input.size() > max_input) return;
  const auto cut = std::min<std::size_t>(std::to_integer<std::size_t>(input[0]), input.size() - 1);
  input = input.subspan(1);
  static Reactor reactor;  // shared: it keeps no state of destroyed channels
  transport::test::SocketPair pair;
  pair.limit_sending();  // so that replies are queued
  std::size_t got = 0;
  int closed = 0;
  Bytes sent;
  store::Channel channel(
      reactor, std::move(pair.one), max_payload,
      [&](const store::StoreMessage& message) {
        require(closed == 0, "no message follows the end");
        require(message.payload.size() <= max_payload, "a payload is bounded");
        got += store::Channel::header_bytes + message.payload.size();
        channel.send(message);
      },
      [&](const std::string& reason) {
        require(!reason.empty(), "an end has a reason");
        ++closed;
      });
  transport::test::RawPeer peer(std::move(pair.other));
  peer.write(input.first(cut));
  reactor.run_once(std::chrono::seconds(0));
  if (closed == 0) peer.write(input.subspan(cut));
  reactor.run_once(std::chrono::seconds(0));
  // Sends each decoded message back.
  const auto drain = [&] {
    for (auto part = peer.read(max_input); !part.empty(); part = peer.read(max_input)) {
      sent.insert(sent.end(), part.begin(), part.end());
    }
  };
  for (drain(); !channel.flushed(); drain()) reactor.run_once(std::chrono::seconds(0));
  require(got <= input.size() && (sent.size() == got || closed == 1),
          "no message comes out of nothing, and none is lost");
  require(sent.size() <= got && std::equal(sent.begin(), sent.end(), input.begin()),
          "a message has one form");
  if (input.size() % 2 == 1) return;  // the channel is destroyed while open
  peer.close();
  reactor.run_once(std::chrono::seconds(0));
  reactor.run_once(std::chrono::seconds(0));
  channel.send({.kind = store::StoreMessageKind::failure});
  require(closed == 1 && channel.flushed(), "the end of a channel is reported once");
}

void check_payloads(Input input) {
  const Bytes bytes(input.begin(), input.end());
  const auto error = store::decode_error(bytes);
  const auto again = store::decode_error(store::encode(error));
  require(again.code() == error.code() &&
              again.sentence() == error.sentence().substr(0, again.sentence().size()),
          "an error survives encoding and decoding");
  const auto join = store::JoinRequest::decode(bytes);
  require(!join.describe(3).empty(), "a member can be described");
  for (int size = 1; size < 4; ++size) {
    const auto table = store::split_gathered(bytes, size);
    if (!table) continue;
    std::size_t whole = 0;
    for (const auto& part : *table) whole += sizeof(std::uint32_t) + part.size();
    require(table->size() == static_cast<std::size_t>(size) && whole == bytes.size(),
            "the parts of a table are the table");
  }
}

}  // namespace

// The first byte says whether the rest is a connection's bytes or a message's payload.
void store(Input input) {
  if (input.empty()) return;
  const bool is_payload = (std::to_integer<unsigned>(input[0]) & 1U) != 0;
  input = input.subspan(1);
  if (is_payload) return check_payloads(input);
  check_channel(input);
}

// Three lines: a URL, or nothing; MASTER_ADDR; MASTER_PORT.
void endpoint(Input input) {
  auto text = text_of(input);
  const auto next_line = [&text] {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.erase(0, end + 1);
    return line;
  };
  launch::InitChoice choice{.init = launch::Init::store, .url = next_line(), .source = "--init="};
  choice.url = choice.url.empty() ? "env://" : "tcp://" + choice.url;
  EnvironmentMap map;
  map["MASTER_ADDR"] = next_line();
  map["MASTER_PORT"] = next_line();
  launch::Resolved resolved{.size = 2};
  if (!text.empty()) resolved.chosen = launch::Claim{.kind = launch::LauncherKind::elastic};
  try {
    const auto found = tutti::store::find_store_address(map, choice, resolved);
    require(!found.host.empty() && found.port >= 1 && found.port + found.ports - 1 <= 65535,
            "a host and valid ports");
    require(found.text().find(found.host) != std::string::npos, "the address can be described");
    (void)found.is_explicit();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::usage, "bad input is a usage error");
    require(error.sentence().find("--init") != std::string::npos ||
                error.sentence().starts_with("MASTER_PORT="),
            "the message names the invalid setting");
  }
}

}  // namespace tutti::fuzz
