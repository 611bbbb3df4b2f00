// Point to point: one message between two ranks.
//
//     0 ──► 1        rounds 1, bytes sent n, always chosen
//
// A message is one step: splitting it is the transport's business.
#include <stdexcept>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::algorithm {

namespace {

Schedule one_loop(std::string name, std::vector<StepPattern> steps) {
  return {.algorithm = std::move(name), .loops = {{1, 1, std::move(steps)}}, .scratch_elements = 0};
}

}  // namespace

Schedule send(const Problem& problem, int to) {
  return one_loop("send", {send_to(to, Buffer::input, whole(problem.count))});
}

Schedule recv(const Problem& problem, int from) {
  return one_loop("recv", {recv_from(from, Buffer::output, whole(problem.count))});
}

Schedule send_recv(const Problem& problem, int to, std::int64_t send_count, int from,
                   std::int64_t recv_count) {
  if ((to == problem.rank) != (from == problem.rank))
    throw std::invalid_argument(
        "send_recv: a rank that sends to itself must also receive from itself");
  if (to != problem.rank)
    return one_loop("send_recv", {send_to(to, Buffer::input, whole(send_count)),
                                  recv_from(from, Buffer::output, whole(recv_count))});
  if (send_count != recv_count)
    throw std::invalid_argument("send_recv: a rank sends itself " + std::to_string(send_count) +
                                " elements but receives " + std::to_string(recv_count));
  return one_loop("send_recv",
                  {local(StepKind::copy, Buffer::output, Buffer::input, whole(recv_count))});
}

}  // namespace tutti::algorithm
