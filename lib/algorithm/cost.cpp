#include "algorithm/cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tutti::algorithm {

namespace {

int log2_up(int value) {
  return value <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<unsigned>(value - 1)));
}

std::int64_t pieces(double bytes, double chunk) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(bytes / chunk)));
}

/// The formulas of one question: n bytes, p ranks on h hosts, up to m on one.
class Formula {
 public:
  Formula(const CostQuestion& question, const CostModel& model)
      : question_(question),
        model_(model),
        n_(question.bytes),
        p_(question.layout.ranks),
        h_(question.layout.hosts),
        m_(question.layout.max_on_a_host) {}

  [[nodiscard]] double seconds() const {
    if (p_ == 1) return n_ / model_.copy_rate;
    switch (question_.operation) {
      case Operation::fan_out:
        return flat_tree();
      case Operation::broadcast:
        return broadcast();
      case Operation::reduce:
        return reduce();
      case Operation::all_reduce:
        return all_reduce();
      case Operation::all_gather:
      case Operation::all_gather_v:
        if (is("hierarchical")) return rings_of_hosts();
        return is("ring") ? ring(n_ * p_, p_ - 1, false) : circulant(n_, true, 0);
      case Operation::reduce_scatter:
      case Operation::reduce_scatter_v:
        return reduce_scatter();
      case Operation::gather:
      case Operation::scatter:
        return is("direct") ? rooted(n_) : rooted_tree();
      case Operation::scan:
      case Operation::exclusive_scan:
        return is("chain") ? chain(1) : is("pairwise") ? exchange(n_, 1) : tree(n_);
      case Operation::gather_v:
      case Operation::scatter_v:
        return direct(n_);
      case Operation::all_to_all:
        return all_to_all();
      case Operation::all_to_all_v:
        return exchange(n_, 0);
      case Operation::barrier:
      case Operation::split:
      case Operation::finalize:
        if (is("leaders")) return log2_up(h_) * hop(0, true, 1, 0) + 2 * shared_chunk(0, 0);
        return log2_up(p_) * hop(0, crosses(), 1, 0);
      default:
        return 0;
    }
  }

 private:
  [[nodiscard]] bool is(std::string_view name) const { return question_.algorithm == name; }
  [[nodiscard]] bool crosses() const { return h_ > 1; }
  [[nodiscard]] double copy(double bytes) const { return bytes / model_.copy_rate; }

  /// One message from its send to the end of its receive, while `sharing` ranks of a host send.
  [[nodiscard]] double hop(double bytes, bool far, int sharing, double reduced) const {
    const double ends = 2 * model_.message_cost + reduced / model_.reduce_rate;
    if (!far) return model_.host_latency + ends + 2 * copy(bytes);
    // A long message is copied while its other parts are on the link.
    const double copied = std::min(bytes, 64.0 * 1024);
    return model_.link_latency + ends + 2 * copy(copied) +
           std::max(bytes * sharing / model_.link_rate, copy(bytes));
  }
  /// A chunk through a host's shared memory, of which a rank publishes `published` bytes and reads
  /// `read` bytes. Calls inside one host have messages instead.
  [[nodiscard]] double shared_chunk(double published, double read) const {
    if (!crosses()) return hop(published, false, 1, 0) + copy(read);
    return model_.host_latency + copy(published + read);
  }
  /// Delay that a piece causes for those behind it, at a rank that receives and forwards it.
  [[nodiscard]] double stage(double bytes, double reduced) const {
    const double core = 2 * model_.message_cost + 2 * copy(bytes) + reduced / model_.reduce_rate;
    return crosses() ? std::max(bytes / model_.link_rate, core) : core;
  }

  /// Rounds of doubling or halving that cross hosts: those with the longest messages.
  [[nodiscard]] int far_rounds() const { return crosses() ? log2_up(h_) : 0; }
  [[nodiscard]] int near_rounds() const { return std::max(0, log2_up(p_) - far_rounds()); }

  [[nodiscard]] double tree(double reduced) const {
    return far_rounds() * hop(n_, true, 1, reduced) + near_rounds() * hop(n_, false, 1, reduced);
  }
  [[nodiscard]] double chain(double reduced_share) const {
    const double chunk = std::min(n_, question_.chunk);
    const double reduced = chunk * reduced_share;
    const double fill =
        (h_ - 1) * hop(chunk, true, 1, reduced) + (p_ - h_) * hop(chunk, false, 1, reduced);
    return fill + static_cast<double>(pieces(n_, chunk) - 1) * stage(chunk, reduced);
  }
  /// One rank sends `bytes` directly to every other, or receives them.
  [[nodiscard]] double direct(double bytes) const { return to_others(bytes, p_ - 1); }
  /// The same; of a call between hosts, inside the root's host through shared memory.
  [[nodiscard]] double rooted(double bytes) const {
    if (!crosses() || m_ == 1) return direct(bytes);
    return to_others(bytes, p_ - m_) + shared_chunk(bytes, (m_ - 1) * bytes);
  }
  /// The root sends to every other rank, or to one of each other host, which publishes the buffer.
  [[nodiscard]] double flat_tree() const {
    if (!crosses() || m_ == 1) return direct(n_);
    const double chunk = std::min({n_, question_.chunk, question_.max_published});
    const double core = (h_ - 1) * (model_.message_cost + copy(n_)) + copy(n_);
    const double link = (h_ - 1) * n_ / model_.link_rate;
    return std::max(core, link) + hop(0, true, 1, 0) + copy(std::min(n_, 65536.0)) +
           shared_chunk(chunk, chunk);
  }
  [[nodiscard]] double to_others(double bytes, int messages) const {
    const double core = messages * (model_.message_cost + copy(bytes));
    const double link = crosses() ? (p_ - m_) * bytes / model_.link_rate : 0;
    return std::max(core, link) + hop(0, crosses(), 1, 0) + copy(std::min(bytes, 65536.0));
  }
  /// `rounds` rounds in which each rank sends 1/p of `all` to its neighbour.
  [[nodiscard]] double ring(double all, int rounds, bool reduces) const {
    const double slice = all / p_;
    const double chunk = slice / static_cast<double>(pieces(slice, question_.chunk));
    const double reduced = reduces ? chunk : 0;
    const double once_round = (crosses() ? h_ : 0) * hop(chunk, true, 1, reduced) +
                              (crosses() ? p_ - h_ : p_) * hop(chunk, false, 1, reduced);
    const double latency = rounds * once_round / p_;
    const double flow =
        rounds * static_cast<double>(pieces(slice, question_.chunk)) * stage(chunk, reduced);
    return std::max(latency, flow + hop(0, crosses(), 1, 0));
  }
  /// Blocks of `block` bytes whose number doubles each round. In rank order all rounds may cross
  /// hosts.
  [[nodiscard]] double circulant(double block, bool by_rank, double reduced_share) const {
    double sum = 0;
    int round = 0;
    for (int near = 1; near < p_; near = std::min(2 * near, p_), ++round) {
      const double bytes = block * std::min(near, p_ - near);
      const bool far = crosses() && (by_rank || near * h_ >= p_);
      sum += hop(bytes, far, by_rank ? std::min(near, m_) : m_, bytes * reduced_share);
    }
    return sum;
  }
  /// Each rank sends `block` bytes to every other, all messages in flight at once.
  [[nodiscard]] double exchange(double block, double reduced_share) const {
    const double core = (p_ - 1) * (2 * model_.message_cost + 2 * copy(block) +
                                    reduced_share * block / model_.reduce_rate);
    const double link = crosses() ? block * m_ * (p_ - m_) / model_.link_rate : 0;
    return std::max(core, link) + hop(0, crosses(), 1, 0) + copy(std::min(block, 65536.0));
  }
  [[nodiscard]] double packed_exchange() const {
    const double bytes = n_ * p_ / 2;
    return log2_up(p_) * (hop(bytes, crosses(), m_, 0) + 2 * copy(bytes)) + 2 * copy(n_ * p_);
  }

  [[nodiscard]] double broadcast() const {
    if (is("direct")) return flat_tree();
    if (is("binomial")) return tree(0);
    if (is("scatter_ring")) return chain(0) * (1 + 1.0 / p_);
    if (is("leaders")) return log2_up(h_) * hop(n_, true, 1, 0) + shared_chunk(n_, n_);
    if (is("hierarchical")) {
      const double chunk = std::min({n_, question_.chunk, question_.max_published});
      const double core = 2 * model_.message_cost + 3 * copy(chunk);
      return (h_ - 1) * hop(chunk, true, 1, 0) + shared_chunk(chunk, chunk) +
             static_cast<double>(pieces(n_, chunk) - 1) * std::max(chunk / model_.link_rate, core);
    }
    return chain(0);
  }
  [[nodiscard]] double reduce() const {
    if (is("binomial")) return tree(n_);
    if (is("hierarchical")) {
      const double chunk = std::max(1.0, std::min({n_, question_.chunk, question_.max_published}));
      const double inside = (m_ - 1) * chunk / model_.reduce_rate;
      const double core =
          2 * model_.message_cost + 2 * copy(chunk) + inside + chunk / model_.reduce_rate;
      return log2_up(h_) * hop(chunk, true, 1, chunk) + shared_chunk(chunk, 0) + inside +
             static_cast<double>(pieces(n_, chunk) - 1) *
                 std::max(log2_up(h_) * chunk / model_.link_rate, core);
    }
    if (is("chain")) return chain(1);
    if (is("gathered")) return rooted_tree() + p_ * n_ / model_.reduce_rate;
    return in_slices(1);
  }
  [[nodiscard]] double all_reduce() const {
    if (is("ring")) return ring(n_, 2 * (p_ - 1), true);
    if (is("hierarchical")) return hierarchy();
    if (is("leaders")) {
      const bool power_of_two = std::has_single_bit(static_cast<unsigned>(h_));
      const int hops = power_of_two ? log2_up(h_) : log2_up(h_) + 1;
      const double chunk = std::max(1.0, std::min(n_, question_.max_published));
      const double inside = (m_ - 1) * chunk / model_.reduce_rate;
      const double core =
          hops * (2 * model_.message_cost + 2 * copy(chunk) + chunk / model_.reduce_rate) + inside +
          copy(chunk);
      return hops * hop(chunk, true, 1, chunk) + shared_chunk(chunk, 0) + inside +
             shared_chunk(chunk, chunk) +
             static_cast<double>(pieces(n_, chunk) - 1) *
                 std::max(hops * chunk / model_.link_rate, core);
    }
    if (is("rabenseifner")) return circulant(n_ / p_, false, 1) + circulant(n_ / p_, false, 0);
    if (is("gathered")) return circulant(n_, true, 0) + p_ * n_ / model_.reduce_rate;
    if (is("slices")) return in_slices(2);
    const bool whole = std::has_single_bit(static_cast<unsigned>(p_));
    const double far = hop(n_, true, m_, n_);
    const double near = hop(n_, false, 1, n_);
    const double others = whole ? 0 : 2 * (m_ > 1 || !crosses() ? near : far);
    const int rounds = static_cast<int>(std::bit_width(static_cast<unsigned>(p_))) - 1;
    const int of_far = std::min(rounds, far_rounds());
    return of_far * far + (rounds - of_far) * near + others;
  }
  /// Segments are reduced inside hosts, halved and doubled between them, and distributed inside.
  [[nodiscard]] double hierarchy() const {
    const double leaders = std::max(1, p_ / h_ < m_ ? 1 : m_);
    const double parts = leaders * h_;
    const double part = std::min(question_.chunk, question_.max_published / parts);
    const auto segments = static_cast<double>(pieces(n_, parts * part));
    const double segment = n_ / segments;
    const double slice = segment / leaders;
    const double inside = (m_ - 1) * slice / model_.reduce_rate;
    // Not the slice that a host's first or last rank leads.
    const double published = m_ == 2 ? slice : segment;
    double one_pass =
        m_ > 1 ? shared_chunk(published, 0) + inside + shared_chunk(slice, segment - slice) : 0;
    double core = segments * (m_ > 1 ? copy(published + segment) + inside : 0);
    for (int far = h_; far > 1; far = (far + 1) / 2) {
      const int parts_sent = far / 2;
      const double sent = slice * parts_sent / h_;
      one_pass += hop(sent, true, static_cast<int>(leaders), sent) +
                  hop(sent, true, static_cast<int>(leaders), 0);
      // Half of the messages are cut in two, at the end of the hosts.
      const double messages = h_ > 2 ? 1.5 : 1;
      core += segments *
              (messages * 4 * model_.message_cost + 4 * copy(sent) + sent / model_.reduce_rate);
    }
    if (segments == 1) return one_pass;
    // The link is idle in half of a pass, and for a twentieth of the time between: as simulated.
    const double link = crosses() ? 2.0 * (h_ - 1) / h_ * n_ / model_.link_rate : 0;
    return std::max(core, 1.05 * link + one_pass / 2);
  }
  /// Blocks travel round rings of ranks with the same index, and are read inside the hosts.
  [[nodiscard]] double rings_of_hosts() const {
    const double chunk = std::max(1.0, std::min({n_, question_.chunk, question_.max_published}));
    const double core = (h_ - 1) * (2 * model_.message_cost + 2 * copy(n_)) + h_ * m_ * copy(n_);
    if (!crosses()) return core + hop(0, false, 1, 0);
    const double link = (h_ - 1) * m_ * n_ / model_.link_rate;
    const auto moves = static_cast<double>((h_ - 1) * pieces(n_, chunk));
    return hop(chunk, true, m_, 0) + (h_ - 2) * hop(0, true, 1, 0) + h_ * shared_chunk(chunk, 0) +
           std::max(core, link) * (moves - 1) / moves;
  }
  [[nodiscard]] double all_to_all() const {
    if (is("bruck")) return packed_exchange();
    if (is("hierarchical") && crosses() && n_ * p_ <= question_.max_published) {
      // Each rank sends a bundle of its host's blocks to one rank of each other host.
      const double bundle = n_ * m_;
      const double core = (h_ - 1) * (2 * model_.message_cost + 2 * copy(bundle));
      const double link = bundle * (p_ - m_) / model_.link_rate;
      return shared_chunk(n_ * p_, n_ * p_) + hop(bundle, true, m_, 0) +
             std::max(core, link) * (h_ - 2) / (h_ - 1);
    }
    if (!crosses()) return exchange(n_, 0);
    // Between hosts by messages, inside them through shared memory.
    const double core =
        (p_ - m_) * (2 * model_.message_cost + 2 * copy(n_)) + (m_ - 1) * shared_chunk(n_, n_);
    const double link = n_ * m_ * (p_ - m_) / model_.link_rate;
    return std::max(core, link) + hop(0, true, 1, 0) + copy(std::min(n_, 65536.0));
  }
  /// Sums of hosts, made through shared memory, are sent to the ranks of other hosts.
  [[nodiscard]] double sums_of_hosts() const {
    const bool fits = n_ * p_ <= question_.max_published;
    const double chunk =
        std::max(1.0, fits ? n_ : std::min({n_, question_.chunk, question_.max_published}));
    // Adjacent blocks share a chunk if they fit.
    const double published =
        fits ? 1 : std::max(n_ * p_ / question_.max_published, n_ > chunk ? n_ * p_ / chunk : 0);
    const double inside = copy(n_ * p_) + h_ * (m_ - 1) * n_ / model_.reduce_rate;
    const double core =
        inside + (h_ - 1) * (2 * model_.message_cost + 2 * copy(n_) + n_ / model_.reduce_rate);
    const double link = (h_ - 1) * m_ * n_ / model_.link_rate;
    if (!crosses()) return exchange(n_, 1);                         // by messages
    const double share = std::min(1.0, chunk / std::max(1.0, n_));  // of a block
    const double messages = (h_ - 1) / share;
    return inside * share + hop(chunk, true, m_, chunk) + published * shared_chunk(0, 0) +
           std::max(core, link) * (messages - 1) / messages;
  }
  [[nodiscard]] double reduce_scatter() const {
    if (is("hierarchical")) return sums_of_hosts();
    if (is("ring")) return ring(n_ * p_, p_ - 1, true);
    if (is("pairwise")) return exchange(n_, 1);
    return circulant(n_, true, 1) + copy(n_ * p_ / 2);
  }
  /// Blocks move up or down a tree: the root's link carries all of them.
  [[nodiscard]] double rooted_tree() const {
    double sum = 0;
    for (int near = 1; near < p_; near *= 2)
      sum +=
          hop(n_ * std::min(near, p_ - near), crosses() && near * h_ >= p_, 1, 0) + copy(n_ * near);
    return sum;
  }
  /// Slices of raw contributions to their owners, and the results onward: `ways` exchanges.
  [[nodiscard]] double in_slices(int ways) const {
    const double slice = n_ / p_;
    const auto passes = static_cast<double>(pieces(slice, question_.chunk));
    return exchange(slice, 1) + (ways - 1) * exchange(slice, 0) + (ways == 1 ? direct(slice) : 0) +
           (passes - 1) * (p_ - 1) * 2 * ways * model_.message_cost;
  }

  const CostQuestion& question_;
  const CostModel& model_;
  double n_;
  int p_;
  int h_;
  int m_;
};

}  // namespace

RankLayout rank_layout(int ranks, const std::vector<int>& host) {
  if (host.empty()) return {ranks, 1, ranks};
  std::vector<int> on_host;
  for (const int h : host) {
    if (static_cast<std::size_t>(h) >= on_host.size())
      on_host.resize(static_cast<std::size_t>(h) + 1);
    ++on_host[static_cast<std::size_t>(h)];
  }
  const auto used = std::count_if(on_host.begin(), on_host.end(), [](int n) { return n > 0; });
  return {ranks, static_cast<int>(used), *std::max_element(on_host.begin(), on_host.end())};
}

double cost_of(const CostQuestion& question, const CostModel& model) {
  return Formula(question, model).seconds();
}

std::int64_t rounds_of(const CostQuestion& question) {
  const auto is = [&](std::string_view name) { return question.algorithm == name; };
  const int p = question.layout.ranks;
  const std::int64_t log = log2_up(p);
  const bool reduces_all = question.operation == Operation::all_reduce;
  if (p == 1) return 0;
  if (is("leaders")) return log2_up(question.layout.hosts) + (reduces_all ? 2 : 1);
  if (is("hierarchical") && (question.operation == Operation::reduce_scatter ||
                             question.operation == Operation::reduce_scatter_v ||
                             question.operation == Operation::all_to_all))
    return 2;
  if (is("hierarchical") && question.operation == Operation::reduce)
    return log2_up(question.layout.hosts) + pieces(question.bytes, question.chunk);
  if (is("hierarchical") && !reduces_all) return question.layout.hosts;
  if (is("chain") || is("scatter_ring")) return p - 2 + pieces(question.bytes, question.chunk);
  if (is("hierarchical"))
    return std::int64_t{2} * (question.layout.hosts - 1 + question.layout.max_on_a_host - 1);
  if (is("ring")) return reduces_all ? std::int64_t{2} * (p - 1) : p - 1;
  if (is("rabenseifner")) return 2 * log;
  if (is("slices")) return std::int64_t{2} * (p - 1);
  if (is("pairwise")) return question.operation == Operation::all_to_all && p % 2 != 0 ? p : p - 1;
  if (is("direct")) return 1;
  if (is("recursive_doubling") && !reduces_all)
    return question.operation == Operation::scan ? log : 1 + log2_up(p - 1);
  if (is("recursive_doubling"))
    return std::has_single_bit(static_cast<unsigned>(p)) ? log : log - 1 + 2;
  return log;
}

}  // namespace tutti::algorithm
