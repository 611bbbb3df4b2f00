#include "sentences.hpp"

#include <fmt/format.h>

#include "text.hpp"

namespace tutti::app {
namespace {

std::string fan_out_sentences(const Problem& problem, const std::string& size) {
  std::string lines;
  for (int peer = 0; peer < problem.ranks; ++peer) {
    if (peer == problem.root) continue;
    lines += fmt::format("{}sent {} to rank {}", lines.empty() ? "" : "\n", size, peer);
  }
  return lines.empty() ? "is alone: nothing to send" : lines;
}

std::string sentence_of_root(const Problem& problem, const std::string& size,
                             const std::string& ranks) {
  switch (problem.operation) {
    case Operation::fan_out:
      return fan_out_sentences(problem, size);
    case Operation::broadcast:
      return fmt::format("broadcast {} to all ranks", size);
    case Operation::reduce:
      return fmt::format("reduced {} over {} by {}", size, ranks, name(problem.op));
    case Operation::gather:
      return fmt::format("gathered {} from each of {}", size, ranks);
    default:
      return fmt::format("scattered {} to each of {}", size, ranks);
  }
}

std::string sentence_of_other(const Problem& problem, const std::string& size) {
  switch (problem.operation) {
    case Operation::reduce:
    case Operation::gather:
      return fmt::format("sent {} to rank {}", size, problem.root);
    default:
      return fmt::format("received {} from rank {}", size, problem.root);
  }
}

std::string sentence(const Problem& problem) {
  const auto size = size_text(bytes_of(problem));
  const auto ranks = count_text(problem.ranks, "rank");
  if (shape_of(problem).rooted) {
    return problem.rank == problem.root ? sentence_of_root(problem, size, ranks)
                                        : sentence_of_other(problem, size);
  }
  switch (problem.operation) {
    case Operation::all_reduce:
      return fmt::format("reduced {} over {} by {}", size, ranks, name(problem.op));
    case Operation::all_gather:
      return fmt::format("gathered {} from each of {}", size, ranks);
    case Operation::reduce_scatter:
      return fmt::format("received its {} of what {} reduced by {}", size, ranks, name(problem.op));
    case Operation::all_to_all:
      return fmt::format("exchanged {} with {}, a block each", size, ranks);
    case Operation::send_recv:
      return fmt::format("sent {0} to rank {1}, received {0} from rank {2}", size, next_of(problem),
                         previous_of(problem));
    default:
      return "passed";
  }
}

/// Whether this rank's data was brought by the operation. What it had anyway, such as the buffer of
/// a broadcast's root, is checked as well, but is not worth a word.
bool has_news(const Problem& problem) {
  const auto layout = layout_of(problem);
  const bool is_source = shape_of(problem).send == Extent::none && layout.has_input;
  return layout.has_result && !is_source;
}

}  // namespace

std::string sentences_of(const Problem& problem, const Wrong& wrong) {
  const auto text = sentence(problem);
  if (wrong.elements > 0) {
    const auto layout = layout_of(problem);
    return fmt::format("{}, WRONG: {} ({} of {} elements)", text, wrong.first, wrong.elements,
                       layout.has_result ? layout.result_elements : layout.input_elements);
  }
  return has_news(problem) ? text + ", verified" : text;
}

}  // namespace tutti::app
