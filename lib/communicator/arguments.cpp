#include "communicator/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <vector>

#include "control/group.hpp"
#include "tutti/error.hpp"

namespace tutti {
namespace {

template <class... Values>
[[noreturn]] void refuse(fmt::format_string<Values...> format, Values&&... values) {
  throw Error(ErrorCode::usage, fmt::format(format, std::forward<Values>(values)...));
}

/// By multiplication: a division takes as long as all else in here.
bool fits_memory(std::size_t count, std::size_t times, std::size_t bytes_each) {
  std::size_t all = 0;
  return !__builtin_mul_overflow(count, times, &all) &&
         !__builtin_mul_overflow(all, bytes_each, &all) &&
         all <= static_cast<std::size_t>(INT64_MAX);
}

void require_memory(const void* buffer, std::size_t count, Type type) {
  if (buffer == nullptr && count > 0) refuse("the buffer is null but its count is {}", count);
  if (!fits_memory(count, 1, size_of(type))) {
    refuse("{} elements of {} are more than memory can hold", count, name(type));
  }
}

void require_no_overlap(const void* send, std::size_t send_bytes, const void* recv,
                        std::size_t recv_bytes) {
  const std::less<const std::byte*> before;
  const auto* const a = static_cast<const std::byte*>(send);
  const auto* const b = static_cast<const std::byte*>(recv);
  if (send_bytes == 0 || recv_bytes == 0) return;
  if (before(a, b + recv_bytes) && before(b, a + send_bytes)) {
    refuse(
        "send and receive buffers overlap: use separate memory, or tutti::in_place where the call "
        "has it");
  }
}

/// First element of `rank`'s block in the buffer of all ranks' blocks.
std::size_t offset_of(const CheckedCollective& call, int rank) {
  const auto blocks = static_cast<std::size_t>(rank);
  if (!call.displacements.empty()) return call.counts[blocks] > 0 ? call.displacements[blocks] : 0;
  if (call.counts.empty()) return call.count * blocks;
  return std::accumulate(call.counts.begin(), call.counts.begin() + rank, std::size_t{0});
}

class Check {
 public:
  Check(const Collective& call, const control::Group& group)
      : call_(call),
        shape_(shape_of(call.operation)),
        group_(group),
        rank_(group.rank),
        size_(group.size()),
        is_root_(shape_.rooted && group.rank == call.root),
        has_send_(shape_.send != Extent::none && (!shape_.send_at_root_only || is_root_)),
        has_recv_(shape_.recv != Extent::none && (!shape_.recv_at_root_only || is_root_) &&
                  !(shape_.exclusive && rank_ == 0)) {}

  CheckedCollective run() {
    if (!shape_.collective) {
      refuse("{} is a message: use run(Message)", name(call_.operation));
    }
    if (!shape_.for_users) {
      refuse("{} is not an operation for run(): it takes collectives such as all_reduce",
             name(call_.operation));
    }
    if (shape_.rooted) require_rank("root", call_.root, group_);
    checked_ = {.operation = call_.operation,
                .type = call_.type,
                .op = shape_.reduces ? call_.op : Operator::sum,
                .factor = call_.factor,
                .root = shape_.rooted ? call_.root : -1};
    require_memory(call_.send, call_.send_count, call_.type);
    require_memory(call_.recv, call_.recv_count, call_.type);
    take_counts();
    checked_.count = own_count();
    if (call_.in_place) {
      place_in_place();
    } else {
      place_apart();
    }
    return checked_;
  }

 private:
  [[nodiscard]] std::string_view operation() const { return name(call_.operation); }

  [[nodiscard]] bool has_displacements() const {
    return !call_.displacements.empty() || !call_.recv_displacements.empty();
  }

  void take_counts() {
    if (!shape_.counts_differ) {
      if (!call_.counts.empty()) refuse("{} takes no counts: {}_v does", operation(), operation());
      if (has_displacements()) refuse("{} takes no displacements: v-forms do", operation());
      return;
    }
    if (shape_.reduces && has_displacements()) {
      refuse("{} takes no displacements: its blocks have no gaps", operation());
    }
    if (call_.operation != Operation::all_to_all_v && !call_.recv_displacements.empty()) {
      refuse("{} takes no recv_displacements: pass displacements", operation());
    }
    const bool needed = !shape_.rooted || is_root_;
    if (!needed) return;
    require_counts("counts", call_.counts);
    checked_.counts = call_.counts;
    if (call_.operation == Operation::all_to_all_v) {
      require_counts("recv_counts", call_.recv_counts);
      checked_.recv_counts = call_.recv_counts;
      const auto own = static_cast<std::size_t>(rank_);
      if (call_.counts[own] != call_.recv_counts[own]) {
        refuse(
            "{} sends {} {} to this rank itself, but receives {} from it: both counts must agree",
            operation(), call_.counts[own], name(call_.type), call_.recv_counts[own]);
      }
      take_displacements("recv_displacements", call_.recv_displacements, call_.recv_counts, true);
    }
    take_displacements("displacements", call_.displacements, call_.counts,
                       shape_.recv == Extent::all && call_.operation != Operation::all_to_all_v);
  }

  /// `received`: the blocks are in the receive buffer.
  void take_displacements(const char* what, std::span<const std::size_t> begins,
                          std::span<const std::size_t> counts, bool received) {
    if (begins.empty()) return;
    if (begins.size() != counts.size()) {
      refuse("{} of {} has {} entries: it takes one for each of the {} ranks", what, operation(),
             begins.size(), size_);
    }
    const bool in_recv = received || call_.in_place;
    const auto elements = in_recv ? call_.recv_count : call_.send_count;
    for (std::size_t rank = 0; rank < begins.size(); ++rank) {
      if (counts[rank] == 0) continue;
      if (begins[rank] <= elements && counts[rank] <= elements - begins[rank]) continue;
      refuse("{} of {}: block {} has {} {} from element {} on, but the {} buffer has {}", what,
             operation(), rank, counts[rank], name(call_.type), begins[rank],
             in_recv ? "receive" : "send", elements);
    }
    if (received) require_apart(what, begins, counts);
    if (received && call_.operation == Operation::all_to_all_v) {
      checked_.recv_displacements = begins;
    } else {
      checked_.displacements = begins;
    }
  }

  void require_apart(const char* what, std::span<const std::size_t> begins,
                     std::span<const std::size_t> counts) const {
    std::vector<std::size_t> order;
    for (std::size_t rank = 0; rank < begins.size(); ++rank) {
      if (counts[rank] > 0) order.push_back(rank);
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return begins[a] < begins[b]; });
    const auto overlap = std::adjacent_find(
        order.begin(), order.end(),
        [&](std::size_t a, std::size_t b) { return begins[b] - begins[a] < counts[a]; });
    if (overlap == order.end()) return;
    refuse("{} of {}: blocks {} and {} overlap in the receive buffer", what, operation(), *overlap,
           *std::next(overlap));
  }

  void require_counts(const char* what, std::span<const std::size_t> counts) const {
    const auto most = static_cast<std::size_t>(INT64_MAX) / size_of(call_.type);
    std::size_t sum = 0;
    for (const auto count : counts) {
      if (count > most - sum) {
        refuse("{} of {} add up to more {} than memory can hold", what, operation(),
               name(call_.type));
      }
      sum += count;
    }
    if (counts.size() == static_cast<std::size_t>(size_)) return;
    refuse("{} of {} has {} entries: it takes one for each of the {} ranks", what, operation(),
           counts.size(), size_);
  }

  /// Elements of this rank's block, or of the whole buffer.
  std::size_t own_count() const {
    if (!checked_.counts.empty()) return checked_.counts[static_cast<std::size_t>(rank_)];
    if (shape_.send == Extent::none) return call_.recv_count;
    if (call_.in_place) {
      const bool blocks = shape_.send == Extent::all || shape_.recv == Extent::all;
      return blocks ? divided(call_.recv_count, "the buffer") : call_.recv_count;
    }
    if (shape_.send == Extent::one) return call_.send_count;
    if (shape_.recv == Extent::one) return call_.recv_count;
    return divided(call_.send_count, "the send buffer");
  }

  std::size_t divided(std::size_t elements, const char* what) const {
    const auto blocks = static_cast<std::size_t>(size_);
    if (elements % blocks != 0) {
      refuse(
          "{} of {} has {} elements, which is not a multiple of {} ranks: use {}_v for uneven "
          "blocks",
          what, operation(), elements, size_, operation());
    }
    return elements / blocks;
  }

  std::size_t elements_of(Extent extent, std::span<const std::size_t> counts) const {
    if (extent == Extent::one) return checked_.count;
    if (!counts.empty()) return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    const auto blocks = static_cast<std::size_t>(size_);
    if (!fits_memory(checked_.count, blocks, size_of(call_.type))) {
      refuse("{} blocks of {} {} are more than memory can hold", size_, checked_.count,
             name(call_.type));
    }
    return checked_.count * blocks;
  }

  /// A buffer with displaced blocks may be longer than they are.
  void require_elements(const char* what, std::size_t given, std::size_t due,
                        bool displaced) const {
    if (given == due || displaced) return;
    refuse("the {} buffer of {} has {} elements, expected {}", what, operation(), given, due);
  }

  void place_apart() {
    const auto recv_counts = checked_.recv_counts.empty() ? checked_.counts : checked_.recv_counts;
    const auto send_due = elements_of(shape_.send, checked_.counts);
    const auto recv_due = elements_of(shape_.recv, recv_counts);
    const bool is_all_to_all = call_.operation == Operation::all_to_all_v;
    const bool send_displaced = shape_.send == Extent::all && !checked_.displacements.empty();
    const bool recv_displaced =
        shape_.recv == Extent::all &&
        !(is_all_to_all ? checked_.recv_displacements : checked_.displacements).empty();
    if (has_send_) {
      require_elements("send", call_.send_count, send_due, send_displaced);
      checked_.send = call_.send;
    }
    if (has_recv_) {
      require_elements("receive", call_.recv_count, recv_due, recv_displaced);
      checked_.recv = call_.recv;
    }
    if (!has_send_ || !has_recv_) return;
    if (is_in_place_by_address()) {
      checked_.in_place = true;
      return;
    }
    require_no_overlap(call_.send, call_.send_count * size_of(call_.type), call_.recv,
                       call_.recv_count * size_of(call_.type));
  }

  /// As NCCL has it: the smaller buffer is the own block within the larger.
  bool is_in_place_by_address() const {
    if (call_.recv == nullptr || call_.operation == Operation::all_to_all_v) return false;
    const auto own = offset_of(checked_, rank_) * size_of(call_.type);
    const auto* const send = static_cast<const std::byte*>(call_.send);
    const auto* const recv = static_cast<const std::byte*>(call_.recv);
    if (shape_.send == shape_.recv) return send == recv;
    return shape_.send == Extent::one ? send == recv + own : recv == send + own;
  }

  void place_in_place() {
    if (shape_.send == Extent::none || call_.operation == Operation::all_to_all_v) {
      refuse("{} has no in-place form", operation());
    }
    const bool larger_at_root = shape_.rooted && shape_.send != shape_.recv;
    if (larger_at_root && !is_root_) {
      refuse("{} is in place on its root only: {} must pass a buffer instead of tutti::in_place",
             operation(), rank_text(rank_, group_));
    }
    const bool blocks = shape_.send == Extent::all || shape_.recv == Extent::all;
    const auto extent = blocks ? Extent::all : Extent::one;
    require_elements("in-place", call_.recv_count, elements_of(extent, checked_.counts),
                     !checked_.displacements.empty());
    auto* const larger = static_cast<std::byte*>(call_.recv);
    auto* const own =
        larger == nullptr ? nullptr : larger + offset_of(checked_, rank_) * size_of(call_.type);
    checked_.in_place = has_recv_;
    checked_.send = shape_.send == extent ? larger : own;
    if (has_recv_) checked_.recv = shape_.recv == extent ? larger : own;
  }

  const Collective& call_;
  const Shape& shape_;
  const control::Group& group_;
  int rank_;
  int size_;
  bool is_root_;
  bool has_send_;
  bool has_recv_;
  CheckedCollective checked_;
};

/// For a combination that is not `supported` on the host path.
std::string_view remedy_of(Type type, Operator op, bool scans) {
  if (op >= Operator{operator_count}) return "pass a tutti::Operator";
  if (!reducible(type, Operator::sum)) return "convert to a wider type";
  if (scans && op == Operator::average) return "use sum, and divide by the number of contributions";
  if (op == Operator::premultiplied_sum) return "multiply the contribution, then use sum";
  if (type == Type::boolean) {
    return "use logical_and or logical_or, or convert to f32 for the fraction of true values";
  }
  const bool is_complex = type == Type::c64 || type == Type::c128;
  if (is_complex && (op == Operator::min || op == Operator::max)) {
    return "complex numbers have no order; reduce their absolute values";
  }
  return "bitwise and logical operators are for integers and bool; use sum, product, min, max or "
         "average";
}

}  // namespace

void require_reducible(const CheckedCollective& call) {
  if (supported(Path::host, call.operation, call.type, call.op)) return;
  const bool on_devices = supported(Path::device, call.operation, call.type, call.op);
  refuse("{} of {} by {} is not supported{}: {}", name(call.operation), name(call.type),
         name(call.op), on_devices ? " in host memory" : "",
         remedy_of(call.type, call.op, shape_of(call.operation).scans));
}

void require_rank(const char* what, int rank, const control::Group& group) {
  if (rank >= 0 && rank < group.size()) return;
  const auto in_job =
      group.id != 0 ? fmt::format(" ({} of the job)", group.world_text()) : std::string();
  const auto ranks = group.size() == 1 ? std::string("only rank 0")
                                       : fmt::format("ranks 0 to {}", group.size() - 1);
  refuse("{} {} is not a valid rank of this communicator, which has {}{}", what, rank, ranks,
         in_job);
}

std::string rank_text(int rank, const control::Group& group) {
  if (!group.renumbers()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} of this communicator (rank {} of the job)", rank,
                     group.world_of(rank));
}

CheckedCollective check_arguments(const Collective& call, const control::Group& group) {
  return Check(call, group).run();
}

void check_arguments(const Message& message, const control::Group& group) {
  const int rank = group.rank;
  const bool sends = message.operation != Operation::recv;
  const bool receives = message.operation != Operation::send;
  if (shape_of(message.operation).collective) {
    refuse("{} is not a message: run(Message) takes send, recv and send_recv",
           name(message.operation));
  }
  if (sends) {
    require_memory(message.send, message.send_count, message.type);
    require_rank("receiver", message.to, group);
  }
  if (receives) {
    require_memory(message.recv, message.recv_count, message.type);
    if (message.from != any_rank) {
      require_rank("sender", message.from, group);
    } else if (sends || message.memory == Memory::device) {
      refuse("{} can't receive from any rank: name the sender",
             sends ? "send_recv" : "recv on device memory");
    } else if (group.size() == 1) {
      refuse("recv from any rank has no sender: the communicator has only rank 0");
    }
  }
  if (!sends || !receives) {
    if (sends && message.to == rank) {
      refuse("a rank can't send to itself and then receive: use send_recv");
    }
    if (receives && message.from == rank) {
      refuse("a rank can't receive from itself: use send_recv");
    }
    return;
  }
  const auto bytes = size_of(message.type);
  require_no_overlap(message.send, message.send_count * bytes, message.recv,
                     message.recv_count * bytes);
  if ((message.to == rank) != (message.from == rank) ||
      (message.to == rank && message.send_count != message.recv_count)) {
    refuse(
        "send_recv with this rank on one side needs it on the other side, too, and equal counts");
  }
}

}  // namespace tutti
