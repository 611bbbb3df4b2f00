#include "catalogue.hpp"

#include <algorithm>
#include <array>

namespace tutti::app {
namespace {

constexpr std::array<CatalogueEntry, 11> entries{{
    {Operation::fan_out, "fan-out",
     "Rank 0's buffer to every other rank, one point-to-point send each, checked",
     "mpirun -np 4 tutti fan-out --size 4MiB", "the rank that sends to all others",
     "bytes of the buffer"},
    {Operation::broadcast, "broadcast",
     "The root's buffer to every other rank by the fastest way, checked",
     "mpirun -np 4 tutti broadcast --size 64MiB --root 2", "the rank whose data goes to all",
     "bytes of the buffer"},
    {Operation::all_reduce, "all-reduce",
     "The sum (or another operator) of all ranks' buffers, on every rank, checked",
     "mpirun -np 4 tutti all-reduce --size 1MiB --type f64 --op max", nullptr,
     "bytes of each rank's buffer"},
    {Operation::reduce, "reduce",
     "The sum (or another operator) of all ranks' buffers, on one rank, checked",
     "mpirun -np 4 tutti reduce --size 1MiB --root 3", "the rank that gets the result",
     "bytes of each rank's buffer"},
    {Operation::all_gather, "all-gather",
     "Every rank's block, in the order of ranks, on every rank, checked",
     "mpirun -np 4 tutti all-gather --size 1MiB", nullptr, "bytes of one rank's block"},
    {Operation::reduce_scatter, "reduce-scatter",
     "The sum (or another operator) of all ranks' buffers, a block of it on each rank, checked",
     "mpirun -np 4 tutti reduce-scatter --size 1MiB", nullptr, "bytes of one rank's result"},
    {Operation::gather, "gather", "Every rank's block, in the order of ranks, on one rank, checked",
     "mpirun -np 4 tutti gather --size 1MiB", "the rank that gets all blocks",
     "bytes of one rank's block"},
    {Operation::scatter, "scatter", "A block of the root's buffer to each rank, checked",
     "mpirun -np 4 tutti scatter --size 1MiB", "the rank whose blocks are dealt out",
     "bytes of one rank's block"},
    {Operation::all_to_all, "all-to-all", "A block from every rank to every rank, checked",
     "mpirun -np 4 tutti all-to-all --size 4MiB", nullptr,
     "bytes of each rank's buffer, a block for each rank"},
    {Operation::send_recv, "send-recv",
     "Each rank sends to the next and receives from the one before, checked",
     "mpirun -np 4 tutti send-recv --size 1MiB", nullptr, "bytes of the message"},
    {Operation::barrier, "barrier", "Nobody leaves before all have come",
     "mpirun -np 4 tutti barrier --repeat 100", nullptr, nullptr},
}};

std::string letters_of(std::string_view name) {
  std::string letters;
  std::copy_if(name.begin(), name.end(), std::back_inserter(letters),
               [](char c) { return c != '-' && c != '_'; });
  return letters;
}

}  // namespace

std::span<const CatalogueEntry> catalogue() {
  return entries;
}

const CatalogueEntry* find_entry(std::string_view name) {
  const auto* const found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
    return letters_of(entry.name) == letters_of(name);
  });
  return found == entries.end() ? nullptr : found;
}

std::string shown_name(Operation operation) {
  std::string shown(name(operation));
  std::replace(shown.begin(), shown.end(), '_', '-');
  return shown;
}

}  // namespace tutti::app
