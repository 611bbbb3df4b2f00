// Communicators made of a communicator's ranks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "communicator/state.hpp"

namespace tutti {
namespace {

/// What each rank tells the others of a split. Travels as bytes: hosts of one job have one byte
/// order.
struct Ticket {
  std::int32_t has_color = 0;
  std::int32_t color = 0;
  std::int32_t key = 0;
  std::uint32_t next_communicator = 0;
  std::uint32_t free_channels = 0;  ///< in the host's shared memory; bits
};

/// What a member tells the first member of a group.
struct Application {
  std::uint64_t members = 0;
  std::uint64_t fingerprint = 0;  ///< of the list of members
  std::uint64_t next_communicator = 0;
  std::uint64_t free_channels = 0;
};

/// What the first member answers.
struct Admission {
  std::uint64_t communicator = 0;
  std::uint64_t free_channels = 0;  ///< of all members
};

std::uint64_t fingerprint_of(std::span<const int> world_ranks) {
  std::uint64_t result = 0;
  for (const int rank : world_ranks) result = fingerprint(result, {.root = rank});
  return result;
}

void require_members(std::span<const int> members, const control::Group& group) {
  std::vector<bool> seen(static_cast<std::size_t>(group.size()));
  for (const int member : members) {
    require_rank("member", member, group);
    if (seen[static_cast<std::size_t>(member)]) {
      throw Error(ErrorCode::usage,
                  fmt::format("{} is named twice among the members of a new group: name each once",
                              rank_text(member, group)));
    }
    seen[static_cast<std::size_t>(member)] = true;
  }
  if (!seen[static_cast<std::size_t>(group.rank)]) {
    throw Error(ErrorCode::usage,
                fmt::format("create_group: {} is not in `members`: only members may call it",
                            rank_text(group.rank, group)));
  }
}

/// The number of the new communicator, the same on all members and new to each of them. The first
/// member asks all others.
class Agreement {
 public:
  Agreement(const rendezvous::Peers& peers, HostBackend& host, std::span<const int> members,
            const Application& own, CallSettings settings)
      : peers_(peers), host_(host), members_(members), own_(own), settings_(settings) {
    settings_.tag = internal_tag;
  }

  Admission run() {
    Admission agreed{.communicator = own_.next_communicator, .free_channels = own_.free_channels};
    if (members_.front() != host_.group().rank) {
      auto application = own_;
      send(members_.front(), application);
      receive(members_.front(), agreed);
      return agreed;
    }
    for (const int member : members_.subspan(1)) {
      Application theirs;
      receive(member, theirs);
      require_same(member, theirs);
      agreed.communicator = std::max(agreed.communicator, theirs.next_communicator);
      agreed.free_channels &= theirs.free_channels;
    }
    for (const int member : members_.subspan(1)) send(member, agreed);
    return agreed;
  }

 private:
  void require_same(int member, const Application& theirs) const {
    if (theirs.members == own_.members && theirs.fingerprint == own_.fingerprint) return;
    const int world = host_.group().world_of(member);
    // The others wait for an answer that can't come.
    throw Error(ErrorCode::mismatch,
                fmt::format("{} and {} make groups of different members, of {} and of {} ranks: "
                            "all members pass the same list",
                            peers_.describe(peers_.rank()), peers_.describe(world), own_.members,
                            theirs.members),
                {world});
  }

  template <class T>
  void send(int to, T& value) {
    host_.run(
        Message{.operation = Operation::send, .send = &value, .send_count = sizeof(T), .to = to},
        settings_);
  }
  template <class T>
  void receive(int from, T& value) {
    host_.run(
        Message{
            .operation = Operation::recv, .recv = &value, .recv_count = sizeof(T), .from = from},
        settings_);
  }

  const rendezvous::Peers& peers_;
  HostBackend& host_;
  std::span<const int> members_;
  Application own_;
  CallSettings settings_;
};

}  // namespace

std::optional<Communicator> Communicator::split(std::optional<int> color, int key,
                                                const CallOptions& options) {
  auto settings = options;
  settings.algorithm = {};  // of neither of the two calls that this is
  const auto deadline =
      state_->job->plane->detector().deadline(state_->settings_of(options).timeout);
  // Named as what it is first, so that a rank which calls something else is found.
  state_->run_internal(Operation::split, settings);
  Ticket own{.has_color = color.has_value() ? 1 : 0,
             .color = color.value_or(0),
             .key = key,
             .next_communicator = state_->job->next_communicator,
             .free_channels = state_->job->free_channels()};
  std::vector<Ticket> tickets(static_cast<std::size_t>(size()));
  // One deadline for both. What is left may be next to nothing, which still is a time.
  settings.timeout =
      std::max<std::chrono::nanoseconds>(deadline.remaining(), std::chrono::milliseconds(1));
  all_gather(std::span(&own, 1), std::span(tickets), settings);

  std::uint32_t id = 0;
  for (const auto& ticket : tickets) id = std::max(id, ticket.next_communicator);
  state_->job->next_communicator = id + 1;
  if (!color) return std::nullopt;

  std::vector<int> members;
  auto free_channels = own.free_channels;
  for (int rank = 0; rank < size(); ++rank) {
    const auto& ticket = tickets[static_cast<std::size_t>(rank)];
    if (ticket.has_color == 0 || ticket.color != *color) continue;
    members.push_back(rank);
    free_channels &= ticket.free_channels;
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return tickets[static_cast<std::size_t>(a)].key < tickets[static_cast<std::size_t>(b)].key;
  });
  state_->job->agreed_channels = free_channels;
  return make_group(id, members);
}

Communicator Communicator::duplicate(const CallOptions& options) {
  return std::move(*split(0, rank(), options));
}

Communicator Communicator::create_group(std::span<const int> members, const CallOptions& options) {
  require_members(members, state_->group());
  std::vector<int> world;
  for (const int member : members) world.push_back(state_->group().world_of(member));
  const Application own{.members = members.size(),
                        .fingerprint = fingerprint_of(world),
                        .next_communicator = state_->job->next_communicator,
                        .free_channels = state_->job->free_channels()};
  const auto agreed = Agreement(state_->job->plane->peers(), *state_->host, members, own,
                                state_->settings_of(options))
                          .run();
  state_->job->next_communicator = static_cast<std::uint32_t>(agreed.communicator + 1);
  state_->job->agreed_channels = static_cast<std::uint32_t>(agreed.free_channels);
  return make_group(static_cast<std::uint32_t>(agreed.communicator), members);
}

Communicator Communicator::make_group(std::uint32_t id, std::span<const int> members) {
  control::Group group{.id = id};
  for (const int member : members) {
    if (member == rank()) group.rank = static_cast<int>(group.world.size());
    group.world.push_back(state_->group().world_of(member));
  }
  return Communicator(std::make_unique<State>(*state_, std::move(group)));
}

}  // namespace tutti
