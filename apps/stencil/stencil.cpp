// A small MPI program that uses MPI for its halo exchange and tutti for two collective operations.
//
//     mpirun -np 4 stencil [--plain] [SIZE [STEPS [TOLERANCE]]]
//
// A square plate of SIZE × SIZE cells is heated at its upper edge and cold at the others. Jacobi's
// method replaces each cell by the mean of its four neighbours, until no cell changes by more than
// TOLERANCE, or STEPS times.
//
//     rank 0   ████████████████   each rank has a block of rows;
//              ────────────────   it has its neighbours' nearest row as a halo,
//     rank 1   ████████████████   exchanged in every step by MPI_Sendrecv
//
// A broadcast distributes the parameters, and an all-reduce combines the change of each step: by
// tutti, or with --plain by MPI. Both variants print the same line, bit for bit. The change is a
// maximum, so its result does not depend on the order of reduction; a sum's would.
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <tutti/mpi.hpp>
#include <tutti/tutti.hpp>
#include <utility>
#include <vector>

namespace {

struct Parameters {
  std::int64_t size = 64;
  std::int64_t steps = 2000;
  double tolerance = 0.01;

  /// Every rank needs at least one row.
  [[nodiscard]] bool usable(int ranks) const {
    return size >= ranks && size <= 1 << 15 && steps >= 0 && tolerance >= 0;
  }
};

/// This rank's rows of the plate, with one halo row above and below and one border column on each
/// side.
struct Block {
  Block(const Parameters& parameters, int rank, int ranks)
      : first_row(parameters.size * rank / ranks),
        rows(parameters.size * (rank + 1) / ranks - first_row),
        width(parameters.size + 2),
        cells(static_cast<std::size_t>((rows + 2) * width)) {}

  [[nodiscard]] double* row(std::int64_t index) { return &cells[index * width]; }

  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t width;
  std::vector<double> cells;
};

constexpr double hot = 100.0;

/// Only rank 0 reads the command line, as it would read an input file.
Parameters read_parameters(std::span<char*> words) {
  Parameters parameters;
  if (!words.empty()) parameters.size = std::atoll(words[0]);
  if (words.size() > 1) parameters.steps = std::atoll(words[1]);
  if (words.size() > 2) parameters.tolerance = std::atof(words[2]);
  return parameters;
}

void exchange_halos(Block& block, int above, int below, MPI_Comm column) {
  const auto width = static_cast<int>(block.width);
  MPI_Sendrecv(block.row(1), width, MPI_DOUBLE, above, 0, block.row(block.rows + 1), width,
               MPI_DOUBLE, below, 0, column, MPI_STATUS_IGNORE);
  MPI_Sendrecv(block.row(block.rows), width, MPI_DOUBLE, below, 1, block.row(0), width, MPI_DOUBLE,
               above, 1, column, MPI_STATUS_IGNORE);
}

/// Computes one step from `now` to `next`. Returns the largest change on this rank.
double relax(Block& now, Block& next) {
  double change = 0;
  for (std::int64_t r = 1; r <= now.rows; ++r) {
    const double* const up = now.row(r - 1);
    const double* const here = now.row(r);
    const double* const down = now.row(r + 1);
    double* const out = next.row(r);
    for (std::int64_t c = 1; c < now.width - 1; ++c) {
      out[c] = 0.25 * (up[c] + down[c] + here[c - 1] + here[c + 1]);
      change = std::fmax(change, std::fabs(out[c] - here[c]));
    }
  }
  return change;
}

/// Changes with any bit of any cell, and does not depend on the number of ranks: integer sums have
/// no rounding.
std::uint64_t checksum(Block& block) {
  std::uint64_t sum = 0;
  for (std::int64_t r = 1; r <= block.rows; ++r) {
    for (std::int64_t c = 1; c < block.width - 1; ++c) {
      const auto place = static_cast<std::uint64_t>((block.first_row + r) * block.width + c);
      sum += std::bit_cast<std::uint64_t>(block.row(r)[c]) * (2 * place + 1);
    }
  }
  return sum;
}

int run(std::span<char*> words) {
  const bool plain = !words.empty() && std::string_view(words[0]) == "--plain";
  if (plain) words = words.subspan(1);

  // MPI before tutti: a column of ranks, each with a neighbour above and below.
  int rank = 0;
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int is_ring = 0;
  MPI_Comm column = MPI_COMM_NULL;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &is_ring, 0, &column);
  MPI_Comm_rank(column, &rank);
  int above = MPI_PROC_NULL;
  int below = MPI_PROC_NULL;
  MPI_Cart_shift(column, 0, 1, &above, &below);

  std::optional<tutti::Communicator> communicator;
  if (!plain) communicator = tutti::from_mpi(column);

  Parameters parameters;
  if (rank == 0) parameters = read_parameters(words);
  if (communicator) {
    communicator->broadcast(parameters, 0);
  } else {
    MPI_Bcast(&parameters, sizeof parameters, MPI_BYTE, 0, column);
  }
  if (!parameters.usable(ranks)) {
    if (rank == 0) {
      std::fprintf(stderr, "stencil: give [SIZE [STEPS [TOLERANCE]]], with SIZE from %d to 32768\n",
                   ranks);
    }
    return 2;  // on every rank, after MPI_Finalize
  }

  // MPI beside tutti: in each step MPI exchanges halos, and tutti combines the change. All MPI
  // requests complete before a call of tutti, since tutti's waits do not progress MPI.
  Block now(parameters, rank, ranks);
  if (rank == 0) std::fill_n(now.row(0), now.width, hot);
  Block next = now;
  std::int64_t step = 0;
  double change = INFINITY;
  while (step < parameters.steps && change > parameters.tolerance) {
    exchange_halos(now, above, below, column);
    change = relax(now, next);
    if (communicator) {
      change = communicator->all_reduce(change, tutti::max);
    } else {
      MPI_Allreduce(MPI_IN_PLACE, &change, 1, MPI_DOUBLE, MPI_MAX, column);
    }
    std::swap(now.cells, next.cells);
    ++step;
  }

  // MPI after tutti: the program continues to use MPI.
  if (communicator) communicator->finalize();
  communicator.reset();
  const std::uint64_t mine = checksum(now);
  std::uint64_t all = 0;
  MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, 0, column);
  MPI_Comm_free(&column);
  if (rank == 0) {
    std::printf("%lld x %lld cells, %lld steps, change %.17g, checksum %016llx\n",
                static_cast<long long>(parameters.size), static_cast<long long>(parameters.size),
                static_cast<long long>(step), change, static_cast<unsigned long long>(all));
    if (std::fflush(stdout) != 0) {
      std::perror("stencil: can't write the result");
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    status = run(std::span(argv + 1, argv + argc));
  } catch (const tutti::Error& error) {
    // Skips MPI_Finalize, which would wait for ranks that never enter it.
    tutti::abort_after(error, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return status;
}
