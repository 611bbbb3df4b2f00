#include "raw_exchange.hpp"

#include <utility>

#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

RawExchange::RawExchange(const ScheduleArguments& arguments, Blocks blocks)
    : arguments_(arguments),
      blocks_(std::move(blocks)),
      chunk_(even_chunk(arguments, blocks_.longest())) {}

void RawExchange::append(Schedule& schedule, Buffer to, const Piece& result) const {
  const int size = arguments_.size;
  const int own = arguments_.rank;
  const Buffer mine = own_buffer(arguments_);
  const Region block = blocks_.at(own);
  const auto part = [&](int rank) { return in_scratch(rank * chunk_, block.length()); };
  for (int distance = 1; distance < size; ++distance) {
    const int ahead = (own + distance) % size;
    const int behind = (own + size - distance) % size;
    append_round(schedule, {1,
                            1,
                            {send_to(ahead, mine, chunk_of_pass(blocks_.at(ahead))),
                             recv_from(behind, Buffer::scratch, part(behind))}});
  }
  append_round(
      schedule,
      {1,
       1,
       {local(StepKind::copy, Buffer::scratch, mine, part(own),
              chunk_of_pass(block).offset - part(own).offset),
        combine_from(to, result, Buffer::scratch, part(0).offset - result.offset, size, chunk_)}});
}

}  // namespace tutti::algorithm
