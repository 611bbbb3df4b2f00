#include "algorithm/choice.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/cost.hpp"
#include "base/default_floats.hpp"
#include "base/shape.hpp"

namespace tutti::algorithm {

namespace {

struct Row {
  std::string_view name;
  Schedule (*make)(const ScheduleArguments&);
  Operation operation;
  bool in_rank_order;  // combines in rank order, or does not combine
};

// Rows of an operation are adjacent; those in rank order come last.
constexpr Row rows[]{
    {"dissemination", barrier_dissemination, Operation::barrier, true},
    {"leaders", barrier_leaders, Operation::barrier, true},
    {"direct", fan_out_direct, Operation::fan_out, true},
    {"binomial", broadcast_binomial, Operation::broadcast, true},
    {"chain", broadcast_chain, Operation::broadcast, true},
    {"scatter_ring", broadcast_scatter_ring, Operation::broadcast, true},
    {"direct", fan_out_direct, Operation::broadcast, true},
    {"leaders", broadcast_leaders, Operation::broadcast, true},
    {"hierarchical", broadcast_hierarchical, Operation::broadcast, true},
    {"recursive_doubling", all_reduce_recursive_doubling, Operation::all_reduce, false},
    {"ring", all_reduce_ring, Operation::all_reduce, false},
    {"rabenseifner", all_reduce_rabenseifner, Operation::all_reduce, false},
    {"hierarchical", all_reduce_hierarchical, Operation::all_reduce, false},
    {"leaders", all_reduce_leaders, Operation::all_reduce, false},
    {"gathered", all_reduce_gathered, Operation::all_reduce, true},
    {"slices", all_reduce_slices, Operation::all_reduce, true},
    {"binomial", reduce_binomial, Operation::reduce, false},
    {"chain", reduce_chain, Operation::reduce, false},
    {"hierarchical", reduce_hierarchical, Operation::reduce, false},
    {"gathered", reduce_gathered, Operation::reduce, true},
    {"slices", reduce_slices, Operation::reduce, true},
    {"bruck", all_gather_bruck, Operation::all_gather, true},
    {"ring", all_gather_ring, Operation::all_gather, true},
    {"hierarchical", all_gather_hierarchical, Operation::all_gather, true},
    {"recursive_halving", reduce_scatter_recursive_halving, Operation::reduce_scatter, false},
    {"hierarchical", reduce_scatter_hierarchical, Operation::reduce_scatter, false},
    {"ring", reduce_scatter_ring, Operation::reduce_scatter, false},
    {"pairwise", reduce_scatter_pairwise, Operation::reduce_scatter, true},
    {"binomial", gather_binomial, Operation::gather, true},
    {"direct", gather_direct, Operation::gather, true},
    {"binomial", scatter_binomial, Operation::scatter, true},
    {"direct", scatter_direct, Operation::scatter, true},
    {"bruck", all_to_all_bruck, Operation::all_to_all, true},
    {"pairwise", all_to_all_pairwise, Operation::all_to_all, true},
    {"hierarchical", all_to_all_hierarchical, Operation::all_to_all, true},
    {"recursive_doubling", scan_recursive_doubling, Operation::scan, false},
    {"chain", scan_chain, Operation::scan, false},
    {"pairwise", scan_pairwise, Operation::scan, true},
    {"recursive_doubling", exclusive_scan_recursive_doubling, Operation::exclusive_scan, false},
    {"chain", exclusive_scan_chain, Operation::exclusive_scan, false},
    {"pairwise", exclusive_scan_pairwise, Operation::exclusive_scan, true},
    {"ring", all_gather_ring, Operation::all_gather_v, true},
    {"hierarchical", all_gather_hierarchical, Operation::all_gather_v, true},
    {"ring", reduce_scatter_ring, Operation::reduce_scatter_v, false},
    {"hierarchical", reduce_scatter_hierarchical, Operation::reduce_scatter_v, false},
    {"pairwise", reduce_scatter_pairwise, Operation::reduce_scatter_v, true},
    {"direct", gather_v_direct, Operation::gather_v, true},
    {"direct", scatter_v_direct, Operation::scatter_v, true},
    {"pairwise", all_to_all_pairwise, Operation::all_to_all_v, true},
};
constexpr std::size_t row_count = std::size(rows);
static_assert([] {
  for (std::size_t i = 1; i < row_count; ++i)
    if (rows[i].operation == rows[i - 1].operation && rows[i - 1].in_rank_order &&
        !rows[i].in_rank_order)
      return false;
  return true;
}());

constexpr auto names = [] {
  std::array<std::string_view, row_count> result;
  for (std::size_t i = 0; i < row_count; ++i) result[i] = rows[i].name;
  return result;
}();

// finalize() and split() synchronize as a barrier does.
constexpr Operation in_table(Operation operation) {
  return operation == Operation::finalize || operation == Operation::split ? Operation::barrier
                                                                           : operation;
}

std::span<const Row> rows_of(Operation operation, bool in_rank_order) {
  const Operation wanted = in_table(operation);
  std::size_t first = 0;
  while (first < row_count &&
         (rows[first].operation != wanted || (in_rank_order && !rows[first].in_rank_order)))
    ++first;
  std::size_t last = first;
  while (last < row_count && rows[last].operation == wanted) ++last;
  return std::span(rows).subspan(first, last - first);
}

// Up to this size the start of a message costs more than its bytes on every measured transport (5
// to 60 µs to wake a peer, 1 to 5 GB/s), so the fewest rounds are fastest.
constexpr std::int64_t fewest_rounds_bytes = std::int64_t{64} << 10;

// A chain or ring has one hop per rank. A hop pays off once it moves this many bytes, about what a
// link carries during the start of a message.
constexpr std::int64_t bytes_worth_a_hop = std::int64_t{8} << 10;

// Bruck's all-to-all sends each block log2(p)/2 times and copies it twice as often, to replace p -
// 1 messages by log2(p). The p - 1 messages overlap, so Bruck pays off only for many very short
// ones.
constexpr std::int64_t bytes_worth_a_message = std::int64_t{1} << 10;
constexpr int ranks_worth_packing = 8;

bool worth_a_pipeline(int size, std::int64_t bytes) {
  return bytes > fewest_rounds_bytes && bytes / size >= bytes_worth_a_hop;
}

std::string_view choose_all_reduce(int size, std::int64_t bytes) {
  if (bytes <= fewest_rounds_bytes) return "recursive_doubling";
  // Both send 2n(p - 1)/p bytes. The ring is pipelined and enters each host once, but has 2(p - 1)
  // rounds.
  return worth_a_pipeline(size, bytes) ? "ring" : "rabenseifner";
}

// In rank order all ranks receive whole contributions, p·n bytes, as long as these are few.
std::string_view choose_in_rank_order(int size, std::int64_t bytes) {
  return bytes * size <= fewest_rounds_bytes ? "gathered" : "slices";
}

// A tree forwards a block up to log2(p) times; with up to two other ranks it saves nothing.
std::string_view choose_rooted_blocks(int size, std::int64_t block_bytes) {
  return size > 3 && block_bytes < bytes_worth_a_hop ? "binomial" : "direct";
}

constexpr std::int64_t usual_chunk_bytes = std::int64_t{256} << 10;
// Shorter chunks cost more in wake-ups than they save: measured at 1 Gbit/s.
constexpr std::int64_t other_chunk_bytes[] = {std::int64_t{128} << 10, std::int64_t{512} << 10,
                                              std::int64_t{1} << 20};
// A smaller gain does not justify another algorithm than inside a host.
constexpr double worth_it = 0.99;
// More messages between hosts and inside them cost more than the formulas count, since they wake
// ranks, which may share cores with other programs.
constexpr double worth_more_messages = 0.92;

// Scratch memory above this size is allocated anew for each call.
constexpr std::int64_t kept_scratch_bytes = std::int64_t{4} << 20;

struct Cheapest {
  double seconds;
  std::int64_t chunk_bytes;
};

Cheapest cheapest_chunk(CostQuestion question, const CostModel& costs) {
  question.chunk = static_cast<double>(usual_chunk_bytes);
  Cheapest best{cost_of(question, costs), usual_chunk_bytes};
  if (question.bytes * question.layout.ranks <= static_cast<double>(other_chunk_bytes[0]))
    return best;
  for (const std::int64_t bytes : other_chunk_bytes) {
    question.chunk = static_cast<double>(bytes);
    const double seconds = cost_of(question, costs);
    if (seconds < worth_it * best.seconds) best = {seconds, bytes};
  }
  return best;
}

CostQuestion question_of(Operation operation, const ScheduleArguments& arguments,
                         const RankLayout& layout, const Traits& traits) {
  // Blocks of different lengths count as so many of the mean length.
  const auto elements = arguments.counts.empty()
                            ? static_cast<double>(arguments.count)
                            : static_cast<double>(Blocks(arguments).total()) / arguments.size;
  return {.operation = operation,
          .algorithm = {},
          .layout = layout,
          .bytes = elements * static_cast<double>(traits.element_bytes),
          .max_published = static_cast<double>(arguments.max_published) *
                           static_cast<double>(traits.element_bytes)};
}

// A whole message is complete before its first byte is processed, which costs more than the
// formulas model.
constexpr double whole_message_surcharge = 1.03;

bool moves_by_chunks(std::string_view algorithm) {
  for (const std::string_view name :
       {"chain", "ring", "hierarchical", "leaders", "pairwise", "slices"})
    if (algorithm == name) return true;
  return false;
}

bool needs_neighbours(std::string_view algorithm) {
  return algorithm == "hierarchical" || algorithm == "leaders";
}

// Rings of ranks with the same index need hosts with equally many ranks. The formulas count blocks
// of equal lengths: one much longer than the others would cross a link once for each host.
bool suits(Operation operation, const ScheduleArguments& arguments, const RankLayout& layout) {
  const Blocks blocks(arguments);
  if (blocks.longest() * arguments.size > 2 * blocks.total()) return false;
  // Longer blocks move as by pairwise.
  if (operation == Operation::all_to_all && blocks.total() > arguments.max_published) return false;
  const bool is_even = layout.hosts * layout.max_on_a_host == layout.ranks;
  const bool gathers = operation == Operation::all_gather || operation == Operation::all_gather_v;
  return layout.max_on_a_host > 1 && (!gathers || is_even);
}

// The fastest by formula, except algorithms that exist for comparison only. The result depends on
// the order of the candidates, since each must beat the best before it by a margin. Those with the
// fewest messages come first: the formulas do not count all that messages cost. Others keep the
// order of the table, the same on all ranks.
std::string_view choose_between_hosts(Operation operation, const ScheduleArguments& arguments,
                                      const RankLayout& layout, const Traits& traits) {
  auto question = question_of(operation, arguments, layout, traits);
  std::vector<const Row*> candidates;
  for (const Row& row : rows_of(operation, traits.in_rank_order)) {
    // Algorithms in rank order cost more: they are used on request only.
    const bool on_request =
        row.name == "scatter_ring" ||
        (row.in_rank_order && !traits.in_rank_order && shape_of(operation).reduces);
    const bool fits = !needs_neighbours(row.name) || suits(operation, arguments, layout);
    // Leaders need as much scratch: a communicator does not keep more.
    if (row.name == "leaders" && question.bytes > static_cast<double>(kept_scratch_bytes)) continue;
    if (!on_request && fits) candidates.push_back(&row);
  }
  const auto order_by_messages = [](const Row* row) {
    return row->name == "leaders" ? 0 : row->name == "hierarchical" ? 1 : 2;
  };
  std::stable_sort(candidates.begin(), candidates.end(), [&](const Row* a, const Row* b) {
    return order_by_messages(a) < order_by_messages(b);
  });
  std::string_view best;
  double least = 0;
  for (const Row* row : candidates) {
    question.algorithm = row->name;
    double seconds = cheapest_chunk(question, traits.costs).seconds;
    if (question.bytes * layout.ranks > static_cast<double>(fewest_rounds_bytes) &&
        !moves_by_chunks(row->name))
      seconds *= whole_message_surcharge;
    const double gain = needs_neighbours(best) ? worth_more_messages : worth_it;
    if (!best.empty() && seconds >= gain * least) continue;
    best = row->name;
    least = seconds;
  }
  return best;
}

bool has_a_choice(Operation operation) {
  switch (operation) {
    case Operation::broadcast:
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::all_gather:
    case Operation::all_gather_v:
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::span<const std::string_view> algorithms_of(Operation operation, bool in_rank_order) {
  const auto found = rows_of(operation, in_rank_order);
  return std::span(names).subspan(static_cast<std::size_t>(found.data() - rows), found.size());
}

std::string_view choose(Operation operation, const ScheduleArguments& arguments,
                        const Traits& traits) {
  const DefaultFloats defaults;  // the same choice on all ranks
  const int size = arguments.size;
  const std::int64_t bytes = arguments.count * traits.element_bytes;
  if (size > 2 && has_a_choice(operation) && !arguments.host.empty())
    if (const RankLayout layout = rank_layout(size, arguments.host); layout.hosts > 1)
      return choose_between_hosts(operation, arguments, layout, traits);
  if (in_table(operation) == Operation::barrier && !arguments.host.empty()) {
    const auto layout = rank_layout(size, arguments.host);
    return layout.hosts > 1 && layout.max_on_a_host > 1 ? "leaders" : "dissemination";
  }
  switch (operation) {
    case Operation::broadcast:
      // With one peer there is nothing to forward.
      if (size <= 2) return "direct";
      return worth_a_pipeline(size, bytes) ? "chain" : "binomial";
    case Operation::all_reduce:
      return traits.in_rank_order ? choose_in_rank_order(size, bytes)
                                  : choose_all_reduce(size, bytes);
    case Operation::reduce:
      if (traits.in_rank_order) return choose_in_rank_order(size, bytes);
      return worth_a_pipeline(size, bytes) ? "chain" : "binomial";
    case Operation::scan:
    case Operation::exclusive_scan:
      if (traits.in_rank_order) return "pairwise";
      return worth_a_pipeline(size, bytes) ? "chain" : "recursive_doubling";
    case Operation::all_gather:
      return worth_a_pipeline(size, bytes * size) ? "ring" : "bruck";
    case Operation::reduce_scatter:
      if (traits.in_rank_order) return "pairwise";
      return worth_a_pipeline(size, bytes * size) ? "ring" : "recursive_halving";
    case Operation::gather:
    case Operation::scatter:
      return choose_rooted_blocks(size, bytes);
    case Operation::all_to_all:
      return size >= ranks_worth_packing && bytes < bytes_worth_a_message ? "bruck" : "pairwise";
    default:
      break;
  }
  // The other operations have one algorithm, and perhaps one in rank order.
  const auto left = rows_of(operation, traits.in_rank_order);
  if (left.empty())
    throw std::invalid_argument(std::string(name(operation)) + " takes no algorithm");
  return left.front().name;
}

std::int64_t choose_chunk(Operation operation, std::string_view algorithm,
                          const ScheduleArguments& arguments, const Traits& traits) {
  const DefaultFloats defaults;
  std::int64_t bytes = usual_chunk_bytes;
  if (arguments.size > 2 && has_a_choice(operation) && !arguments.host.empty()) {
    auto question =
        question_of(operation, arguments, rank_layout(arguments.size, arguments.host), traits);
    question.algorithm = algorithm;
    if (question.layout.hosts > 1) bytes = cheapest_chunk(question, traits.costs).chunk_bytes;
  }
  return std::max<std::int64_t>(1, bytes / traits.element_bytes);
}

Schedule make(Operation operation, std::string_view algorithm, const ScheduleArguments& arguments) {
  const auto known = rows_of(operation, false);
  for (const Row& row : known) {
    if (row.name != algorithm) continue;
    auto schedule = row.make(arguments);
    schedule.published_chunks = published_chunks(schedule);
    return schedule;
  }
  std::string text =
      std::string(name(operation)) + " has no algorithm \"" + std::string(algorithm) + "\"; it has";
  for (std::size_t i = 0; i < known.size(); ++i)
    text += (i == 0 ? " " : ", ") + std::string(known[i].name);
  if (known.empty()) text += " none";
  throw std::invalid_argument(text);
}

}  // namespace tutti::algorithm
