#include "catalogue.hpp"

#include <algorithm>
#include <array>

namespace tutti::app {
namespace {

constexpr std::array<CatalogueEntry, 13> entries{{
    {Operation::fan_out, "fan-out",
     "Send the root's buffer to every other rank, as a loop of sends, and verify it",
     "mpirun -np 4 tutti fan-out --size 4MiB", "rank that sends to all others",
     "bytes of the buffer"},
    {Operation::broadcast, "broadcast",
     "Send the root's buffer to every rank by the fastest algorithm, and verify it",
     "mpirun -np 4 tutti broadcast --size 64MiB --root 2", "rank that sends",
     "bytes of the buffer"},
    {Operation::all_reduce, "all-reduce",
     "Reduce all ranks' buffers, verify the result on every rank",
     "mpirun -np 4 tutti all-reduce --size 1MiB --type f64 --op max", nullptr,
     "bytes of each rank's buffer"},
    {Operation::reduce, "reduce", "Reduce all ranks' buffers, verify the result on the root",
     "mpirun -np 4 tutti reduce --size 1MiB --root 3", "rank that gets the result",
     "bytes of each rank's buffer"},
    {Operation::all_gather, "all-gather",
     "Gather a block from each rank, in rank order, on every rank, and verify it",
     "mpirun -np 4 tutti all-gather --size 1MiB", nullptr, "bytes of one rank's block"},
    {Operation::reduce_scatter, "reduce-scatter",
     "Reduce all ranks' buffers, verify a block of the result on each rank",
     "mpirun -np 4 tutti reduce-scatter --size 1MiB", nullptr, "bytes of one rank's result"},
    {Operation::scan, "scan",
     "Reduce the buffers of ranks 0 to r on each rank r, and verify the result",
     "mpirun -np 4 tutti scan --size 1MiB --op max", nullptr, "bytes of each rank's buffer"},
    {Operation::exclusive_scan, "exclusive-scan",
     "Reduce the buffers of ranks 0 to r - 1 on each rank r, and verify the result",
     "mpirun -np 4 tutti exclusive-scan --size 1MiB", nullptr, "bytes of each rank's buffer"},
    {Operation::gather, "gather",
     "Gather a block from each rank, in rank order, on the root, and verify it",
     "mpirun -np 4 tutti gather --size 1MiB", "rank that gets all blocks",
     "bytes of one rank's block"},
    {Operation::scatter, "scatter", "Send a block of the root's buffer to each rank, and verify it",
     "mpirun -np 4 tutti scatter --size 1MiB", "rank whose blocks are scattered",
     "bytes of one rank's block"},
    {Operation::all_to_all, "all-to-all",
     "Send a block from every rank to every rank, and verify it",
     "mpirun -np 4 tutti all-to-all --size 4MiB", nullptr,
     "bytes of each rank's buffer, which has a block for each rank"},
    {Operation::send_recv, "send-recv",
     "Send from each rank to the next one, receive from the previous one, and verify it",
     "mpirun -np 4 tutti send-recv --size 1MiB", nullptr, "bytes of the message"},
    {Operation::barrier, "barrier", "Block until every rank has entered",
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
