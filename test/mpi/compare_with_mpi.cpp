// Compares every collective with MPI's result on the same input.
//
//     mpirun -np N compare_with_mpi all             each operation, type, operator, root and form
//     mpirun -np N compare_with_mpi random SEED S   a random program for S seconds
//
// Rank 0 prints the number of compared calls. The rank with a difference prints the call with its
// parameters and the program's seed. Exit status 1 then.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>

#include "base/shape.hpp"
#include "compare.hpp"
#include "tutti/mpi.hpp"

namespace tutti::test {
namespace {

constexpr Operation operations[] = {
    Operation::broadcast,        Operation::fan_out,      Operation::all_reduce,
    Operation::reduce,           Operation::all_gather,   Operation::reduce_scatter,
    Operation::gather,           Operation::scatter,      Operation::all_to_all,
    Operation::all_gather_v,     Operation::gather_v,     Operation::scatter_v,
    Operation::reduce_scatter_v, Operation::all_to_all_v, Operation::scan,
    Operation::exclusive_scan,
};

[[noreturn]] void report(const std::string& fault) {
  fmt::print("DIFFERENT {}\n", fault);
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void require_same(Comparison& comparison, const std::string& program) {
  const auto fault = comparison.finish();
  if (!fault.empty()) report(program + fault);
}

bool has_in_place(Operation operation) {
  return shape_of(operation).send != Extent::none && operation != Operation::all_to_all_v;
}

/// Calls `use` for every valid combination of operation, type and operator.
template <class Use>
void for_each_combination(Use use) {
  for (const auto operation : operations) {
    for (int type = 0; type < type_count; ++type) {
      const int operators = shape_of(operation).reduces ? operator_count : 1;
      for (int op = 0; op < operators; ++op) {
        if (comparable(operation, static_cast<Type>(type), static_cast<Operator>(op))) {
          use(operation, static_cast<Type>(type), static_cast<Operator>(op));
        }
      }
    }
  }
}

long compare_all(const Pair& world) {
  const int size = world.ours->size();
  std::mt19937_64 random(1);
  long compared = 0;
  for_each_combination([&](Operation operation, Type type, Operator op) {
    const int roots = shape_of(operation).rooted ? size : 1;
    for (int root = 0; root < roots; ++root) {
      for (const bool in_place : {false, true}) {
        if (in_place && !has_in_place(operation)) continue;
        // One element, a few, and in a third of the cases enough for algorithms of large buffers.
        for (const std::size_t most : {1U, 90U, 40'000U}) {
          if (most > 90 && ((root != size - 1 && root != 0) || random() % 3 != 0)) continue;
          Case one{.operation = operation,
                   .type = type,
                   .op = op,
                   .root = root,
                   .in_place = in_place,
                   .offset = random() % 16,
                   .count = 1 + random() % most,
                   .counts = {},
                   .seed = random()};
          if (shape_of(operation).counts_differ) {
            for (int rank = 0; rank < size; ++rank) one.counts.push_back(random() % most);
            one.displaced = !shape_of(operation).reduces && random() % 2 == 0;
          }
          Comparison comparison(world, one);
          require_same(comparison, "");
          ++compared;
        }
      }
    }
  });
  return compared;
}

/// A random program. All ranks draw from the same seed, so they make the same calls.
class Program {
 public:
  Program(const Pair& world, std::uint64_t seed) : seed_(seed), random_(seed) {
    parts_.push_back({nullptr, world.ours, world.theirs});
  }

  long run(std::chrono::seconds time) {
    const auto begin = std::chrono::steady_clock::now();
    while (true) {
      // All ranks must stop at the same call, by rank 0's clock.
      int stop = std::chrono::steady_clock::now() - begin >= time ? 1 : 0;
      MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
      if (stop != 0) break;
      for (int i = 0; i < 50; ++i) step();
    }
    while (!flight_.empty()) retire();
    return compared_;
  }

 private:
  struct Part {
    std::unique_ptr<Communicator> owned;
    Communicator* ours = nullptr;  ///< null if this rank is not a member
    MPI_Comm theirs = MPI_COMM_NULL;
  };

  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  void step() {
    ++steps_;
    const auto what = draw(100);
    if (what < 2) return split();
    if (what < 4 && parts_.size() > 1) return forget();
    if (what < 15) return exchange();
    collective();
  }

  std::string prefix() const { return fmt::format("program seed {}, step {}: ", seed_, steps_); }

  void retire() {
    require_same(*flight_.front(), prefix());
    flight_.pop_front();
    ++compared_;
  }

  void split() {
    if (parts_.size() >= 6) return forget();
    while (!flight_.empty()) retire();
    const auto colors = 1 + draw(3);
    const auto salt = draw(1U << 30);
    auto& world = parts_.front();
    const int rank = world.ours->rank();
    const auto color = static_cast<int>((static_cast<std::uint64_t>(rank) * 7 + salt) % colors);
    const int key = static_cast<int>((salt >> 8) % 3) * (rank % 2 == 0 ? 1 : -1);
    const bool in_it = !(colors == 3 && color == 2);
    Part part;
    auto made = world.ours->split(in_it ? std::optional<int>(color) : std::nullopt, key);
    MPI_Comm_split(world.theirs, in_it ? color : MPI_UNDEFINED, key, &part.theirs);
    if (made) {
      part.owned = std::make_unique<Communicator>(std::move(*made));
      part.ours = part.owned.get();
      int their_rank = 0;
      MPI_Comm_rank(part.theirs, &their_rank);
      if (their_rank != part.ours->rank()) report(prefix() + "split gives another order than MPI");
    }
    parts_.push_back(std::move(part));
  }

  void forget() {
    while (!flight_.empty()) retire();
    const auto which = 1 + draw(parts_.size() - 1);
    auto& part = parts_[which];
    if (part.theirs != MPI_COMM_NULL) MPI_Comm_free(&part.theirs);
    parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void collective() {
    const auto which = draw(parts_.size());
    Case one;
    do {
      one.operation = operations[draw(std::size(operations))];
      one.type = static_cast<Type>(draw(type_count));
      one.op = static_cast<Operator>(draw(operator_count));
    } while (!comparable(one.operation, one.type, one.op));
    const auto magnitude = draw(100) < 90 ? draw(10) : draw(18);
    one.count = draw((std::size_t{1} << magnitude) + 1);
    one.in_place = has_in_place(one.operation) && draw(2) == 0;
    one.async = draw(3) == 0;
    one.offset = draw(16);
    one.seed = draw(UINT64_MAX);
    const bool is_displaced = draw(2) == 0;
    const auto root = draw(1U << 20);
    std::vector<std::size_t> counts;
    for (int rank = 0; rank < parts_.front().ours->size(); ++rank) {
      counts.push_back(draw(one.count + 1));
    }
    const auto max_in_flight = draw(16);
    auto& part = parts_[which];
    if (part.ours != nullptr) {
      const auto size = static_cast<std::size_t>(part.ours->size());
      one.root = static_cast<int>(root % size);
      if (shape_of(one.operation).counts_differ) {
        one.counts.assign(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(size));
        one.displaced = is_displaced && !shape_of(one.operation).reduces;
      }
      flight_.push_back(std::make_unique<Comparison>(Pair{part.ours, part.theirs}, one));
    }
    while (flight_.size() > (one.async ? max_in_flight : 0)) retire();
  }

  /// Every rank sends one message with a tag and receives one, in one of four ways.
  void exchange() {
    auto& world = *parts_.front().ours;
    const int size = world.size();
    const int shift = static_cast<int>(draw(static_cast<std::uint64_t>(size)));
    const auto tag = static_cast<std::uint32_t>(draw(5));
    const auto count = draw(std::uint64_t{1} << draw(17));
    const auto way = draw(4);
    const int to = (world.rank() + shift) % size;
    const int from = (world.rank() + size - shift) % size;
    const auto value = [&](int rank, std::size_t i) {
      return static_cast<std::uint32_t>(rank * 1'000'003 + static_cast<int>(i) + steps_);
    };
    std::vector<std::uint32_t> out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = value(world.rank(), i);
    std::vector<std::uint32_t> in(count, 0xA5A5A5A5U);
    if (way == 0 || shift == 0) {
      world.send_recv(out, to, in, from, {.tag = tag});
    } else if (way == 1) {
      auto sent = world.start_send(out, to, {.tag = tag});
      world.recv(in, from, {.tag = tag});
      sent.wait();
    } else if (way == 3) {
      // With a tag of its own, so that nobody's next message is taken for this one.
      const auto own_tag = 1000 + static_cast<std::uint32_t>(steps_);
      auto received = world.start_recv(in, any_rank, {.tag = own_tag});
      world.send(out, to, {.tag = own_tag});
      received.wait();
      if (received.source() != from) report(prefix() + "a message of another rank");
    } else {
      auto received = world.start_recv(in, from, {.tag = tag});
      world.send(out, to, {.tag = tag});
      received.wait();
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (in[i] != value(from, i)) {
        report(prefix() + fmt::format("rank {}: element {} of a message of {} from rank {}",
                                      world.rank(), i, count, from));
      }
    }
    ++compared_;
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<Part> parts_;
  std::deque<std::unique_ptr<Comparison>> flight_;
  int steps_ = 0;
  long compared_ = 0;
};

int main_in_mpi(int argc, char** argv) {
  auto communicator = from_mpi(MPI_COMM_WORLD);
  const Pair world{&communicator, MPI_COMM_WORLD};
  const std::string mode = argc > 1 ? argv[1] : "all";
  long compared = 0;
  std::string seed_text;
  if (mode == "all") {
    compared = compare_all(world);
  } else if (mode == "random" && argc == 4) {
    const auto seed = std::strtoull(argv[2], nullptr, 10);
    seed_text = fmt::format(", program seed {}", seed);
    if (communicator.rank() == 0) fmt::print("program seed {}\n", seed);
    std::fflush(stdout);
    compared = Program(world, seed).run(std::chrono::seconds(std::atol(argv[3])));
  } else {
    fmt::print(stderr, "usage: compare_with_mpi all | random SEED SECONDS\n");
    return 2;
  }
  communicator.finalize();
  if (communicator.rank() == 0) {
    fmt::print("{} calls on {} ranks: the same as MPI's{}\n", compared, communicator.size(),
               seed_text);
  }
  return 0;
}

}  // namespace
}  // namespace tutti::test

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 1;
  try {
    status = tutti::test::main_in_mpi(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}
