#include "rank_lines.hpp"

#include <fmt/format.h>

#include "text.hpp"

namespace tutti::app {
namespace {

std::string fan_out_sentences(const CallSpec& spec, const std::string& size) {
  std::string lines;
  for (int peer = 0; peer < spec.ranks; ++peer) {
    if (peer == spec.root) continue;
    lines += fmt::format("{}sent {} to rank {}", lines.empty() ? "" : "\n", size, peer);
  }
  return lines.empty() ? "is alone: nothing to send" : lines;
}

std::string sentence_of_root(const CallSpec& spec, const std::string& size,
                             const std::string& ranks) {
  switch (spec.operation) {
    case Operation::fan_out:
      return fan_out_sentences(spec, size);
    case Operation::broadcast:
      return fmt::format("broadcast {} to all ranks", size);
    case Operation::reduce:
      return fmt::format("reduced {} over {} by {}", size, ranks, name(spec.op));
    case Operation::gather:
      return fmt::format("gathered {} from each of {}", size, ranks);
    default:
      return fmt::format("scattered {} to each of {}", size, ranks);
  }
}

std::string sentence_of_other(const CallSpec& spec, const std::string& size) {
  switch (spec.operation) {
    case Operation::reduce:
    case Operation::gather:
      return fmt::format("sent {} to rank {}", size, spec.root);
    default:
      return fmt::format("received {} from rank {}", size, spec.root);
  }
}

std::string sentence(const CallSpec& spec) {
  const auto size = size_text(bytes_of(spec));
  const auto ranks = count_text(spec.ranks, "rank");
  if (shape_of(spec).rooted) {
    return spec.rank == spec.root ? sentence_of_root(spec, size, ranks)
                                  : sentence_of_other(spec, size);
  }
  switch (spec.operation) {
    case Operation::all_reduce:
      return fmt::format("reduced {} over {} by {}", size, ranks, name(spec.op));
    case Operation::scan:
      return fmt::format("reduced {} over ranks 0 to {} by {}", size, spec.rank, name(spec.op));
    case Operation::exclusive_scan:
      if (spec.rank == 0) return fmt::format("contributed {}", size);
      return fmt::format("reduced {} over ranks 0 to {} by {}", size, spec.rank - 1, name(spec.op));
    case Operation::all_gather:
      return fmt::format("gathered {} from each of {}", size, ranks);
    case Operation::reduce_scatter:
      return fmt::format("received its {} of the result that {} reduced by {}", size, ranks,
                         name(spec.op));
    case Operation::all_to_all:
      return fmt::format("exchanged {} with {}, a block each", size, ranks);
    case Operation::send_recv:
      return fmt::format("sent {0} to rank {1}, received {0} from rank {2}", size, next_of(spec),
                         previous_of(spec));
    default:
      return "passed";
  }
}

/// Whether the operation brought this rank's data. Data that was here before, such as the buffer of
/// a broadcast's root, is checked but not reported.
bool received_data(const CallSpec& spec) {
  const auto layout = buffer_layout_of(spec);
  const bool is_source = shape_of(spec).send == Extent::none && layout.has_input;
  return layout.has_result && !is_source;
}

}  // namespace

std::string rank_lines_of(const CallSpec& spec, const CheckResult& wrong) {
  const auto text = sentence(spec);
  if (wrong.elements > 0) {
    const auto layout = buffer_layout_of(spec);
    return fmt::format("{}, WRONG: {} ({} of {} elements)", text, wrong.first, wrong.elements,
                       layout.has_result ? layout.result_elements : layout.input_elements);
  }
  return received_data(spec) ? text + ", verified" : text;
}

}  // namespace tutti::app
