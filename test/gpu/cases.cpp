#include "cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/shape.hpp"
#include "problem.hpp"

namespace tutti::gpu_test {
namespace {

bool is_8_bit_float(Type type) {
  return type == Type::f8e4m3 || type == Type::f8e5m2;
}

void perform(Communicator& communicator, device::DeviceMemory& memory, Collective call,
             bool started) {
  call.memory = Memory::device;
  const CallOptions options{.stream = memory.stream()};
  if (started) {
    auto work = communicator.start(call, options);
    work.wait();
  } else {
    communicator.run(call, options);
    communicator.synchronize(memory.stream());
  }
}

std::unique_ptr<DeviceBuffer> make_buffer(Communicator& communicator, device::DeviceMemory& memory,
                                          const Case& one, std::size_t elements) {
  const auto bytes = elements * size_of(one.type);
  const auto offset = one.offset * size_of(one.type);
  return one.in_windows ? std::make_unique<DeviceBuffer>(communicator, memory, bytes, offset)
                        : std::make_unique<DeviceBuffer>(memory, bytes, offset);
}

std::string check_in_place(Communicator& communicator, device::DeviceMemory& memory,
                           const Case& one, const Problem& problem) {
  const auto element_bytes = size_of(one.type);
  const auto elements = std::max(problem.send_elements(), problem.recv_elements());
  const auto made = make_buffer(communicator, memory, one, elements);
  auto& buffer = *made;
  buffer.poison();
  buffer.upload(problem.own_input(), problem.own_offset() * element_bytes);
  const auto before = buffer.download();
  auto call = problem.call();
  call.in_place = true;
  call.recv = buffer.data();
  call.recv_count = elements;
  perform(communicator, memory, call, one.started);
  auto after = buffer.download();
  if (!problem.has_recv()) return after == before ? std::string() : "the input has changed";
  if (elements > problem.recv_elements()) {
    // The result is this rank's block.
    Collective apart = problem.call();
    const auto blocks = static_cast<std::size_t>(communicator.rank());
    std::size_t first = problem.recv_elements() * blocks;
    if (!apart.counts.empty()) {
      first = std::accumulate(apart.counts.begin(), apart.counts.begin() + communicator.rank(),
                              std::size_t{0});
    }
    const auto begin = after.begin() + static_cast<std::ptrdiff_t>(first * element_bytes);
    after = {begin, begin + static_cast<std::ptrdiff_t>(problem.recv_elements() * element_bytes)};
  }
  return problem.judge(after);
}

std::string check_apart(Communicator& communicator, device::DeviceMemory& memory, const Case& one,
                        const Problem& problem) {
  const auto send_elements = problem.has_send() ? problem.send_elements() : 0;
  const auto recv_elements = problem.has_recv() ? problem.recv_elements() : 0;
  const auto send_buffer = make_buffer(communicator, memory, one, send_elements);
  const auto recv_buffer = make_buffer(communicator, memory, one, recv_elements);
  auto& send = *send_buffer;
  auto& recv = *recv_buffer;
  recv.poison();
  if (problem.has_send()) send.upload(problem.own_input());
  const bool one_buffer = shape_of(one.operation).send == Extent::none;
  if (one_buffer && communicator.rank() == one.root) recv.upload(problem.root_input());
  const auto before = send.download();
  auto call = problem.call();
  call.send = send_elements > 0 ? send.data() : nullptr;
  call.send_count = send_elements;
  call.recv = recv_elements > 0 ? recv.data() : nullptr;
  call.recv_count = recv_elements;
  perform(communicator, memory, call, one.started);
  if (send.download() != before) return "the send buffer has changed";
  return problem.has_recv() ? problem.judge(recv.download()) : std::string();
}

}  // namespace

DeviceBuffer::DeviceBuffer(device::DeviceMemory& memory, std::size_t bytes, std::size_t offset)
    : memory_(memory),
      bytes_(bytes),
      offset_(offset),
      data_(static_cast<std::byte*>(memory.allocate(std::max<std::size_t>(1, bytes + offset))) +
            offset) {}

DeviceBuffer::DeviceBuffer(Communicator& communicator, device::DeviceMemory& memory,
                           std::size_t bytes, std::size_t offset)
    : memory_(memory),
      bytes_(bytes),
      offset_(offset),
      allocation_(communicator.allocate_device<std::byte>(bytes + 512)),
      data_(allocation_.data() + offset) {}

DeviceBuffer::~DeviceBuffer() {
  if (allocation_.size() == 0) memory_.free(data_ - offset_);
}

void DeviceBuffer::upload(const std::vector<std::byte>& bytes, std::size_t offset) {
  if (!bytes.empty()) memory_.copy_to_device(data_ + offset, bytes.data(), bytes.size());
}

void DeviceBuffer::poison() {
  upload(std::vector<std::byte>(bytes_, poison_value));
}

std::vector<std::byte> DeviceBuffer::download() const {
  std::vector<std::byte> bytes(bytes_);
  if (bytes_ > 0) memory_.copy_to_host(bytes.data(), data_, bytes_);
  return bytes;
}

std::string Case::text() const {
  return fmt::format("{} of {} {} by {}, root {}, offset {}{}{}{}", name(operation), count,
                     name(type), name(op), root, offset, in_place ? ", in place" : "",
                     started ? ", started" : "", in_windows ? ", in windows" : "");
}

std::vector<Case> operation_cases(const std::vector<std::size_t>& counts,
                                  const std::vector<int>& roots) {
  constexpr std::array<Operator, 5> operators{Operator::sum, Operator::product, Operator::min,
                                              Operator::max, Operator::average};
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (int number = 1; number < operation_count; ++number) {
    const auto operation = static_cast<Operation>(number);
    const auto& shape = shape_of(operation);
    if (!shape.collective || shape.recv == Extent::none || shape.scans) continue;
    const bool in_place_too = shape.send != Extent::none && operation != Operation::all_to_all_v;
    for (const auto count : counts) {
      for (const int root : shape.rooted ? roots : std::vector<int>{0}) {
        for (const bool in_place : {false, true}) {
          if (in_place && !in_place_too) continue;
          ++turn;
          auto type = static_cast<Type>(turn % type_count);
          auto op = static_cast<Operator>(turn / type_count % operator_count);
          if (shape.reduces &&
              (is_8_bit_float(type) || !supported(Path::device, operation, type, op))) {
            type = static_cast<Type>(turn % 10);
            op = operators[turn / 10 % operators.size()];
          }
          cases.push_back({.operation = operation,
                           .type = type,
                           .op = op,
                           .root = root,
                           .in_place = in_place,
                           .started = turn % 3 == 0,
                           .count = count});
        }
      }
    }
  }
  return cases;
}

std::vector<Case> arithmetic_cases(std::size_t count, bool small_floats) {
  std::vector<Case> cases;
  for (int type = 0; type < type_count; ++type) {
    if (is_8_bit_float(static_cast<Type>(type)) && !small_floats) continue;
    for (int op = 0; op < operator_count; ++op) {
      for (const auto operation :
           {Operation::all_reduce, Operation::reduce, Operation::reduce_scatter}) {
        if (!supported(Path::device, operation, static_cast<Type>(type),
                       static_cast<Operator>(op))) {
          continue;
        }
        cases.push_back({.operation = operation,
                         .type = static_cast<Type>(type),
                         .op = static_cast<Operator>(op),
                         .count = count});
      }
    }
  }
  return cases;
}

Case random_direct_case(std::mt19937_64& random, int ranks, int types, std::size_t most_bytes) {
  constexpr std::array<Operation, 5> operations{Operation::broadcast, Operation::fan_out,
                                                Operation::all_reduce, Operation::all_gather,
                                                Operation::reduce_scatter};
  const auto below = [&](std::size_t limit) { return random() % limit; };
  Case one;
  one.operation = operations[below(operations.size())];
  one.type = static_cast<Type>(below(static_cast<std::size_t>(types)));
  one.op = static_cast<Operator>(below(4));
  one.root = static_cast<int>(below(static_cast<std::size_t>(ranks)));
  one.in_place = shape_of(one.operation).send != Extent::none && below(2) == 0;
  one.started = below(3) == 0;
  // Sizes are even on a logarithmic scale.
  std::size_t exponents = 0;
  while (std::size_t{1} << exponents < most_bytes) ++exponents;
  const auto magnitude = std::size_t{1} << below(exponents + 1);
  one.count = below(std::min(magnitude, most_bytes) + 1) / size_of(one.type);
  one.offset = below(2) == 0 ? 0 : below(20);
  return one;
}

std::string check(Communicator& communicator, device::DeviceMemory& memory, const Case& one,
                  std::uint64_t seed) {
  const Problem problem(one, communicator.rank(), communicator.size(), seed);
  const auto wrong = problem.in_place_here() ? check_in_place(communicator, memory, one, problem)
                                             : check_apart(communicator, memory, one, problem);
  return wrong.empty() ? wrong : fmt::format("{}: {}", one.text(), wrong);
}

std::string check_allocations(Communicator& communicator, device::DeviceMemory& memory) {
  constexpr std::size_t count = 100000;
  const auto is_zero = [&](const DeviceAllocation<std::int32_t>& one) {
    std::vector<std::int32_t> values(one.size(), 1);
    memory.copy_to_host(values.data(), one.data(), values.size() * 4);
    return std::all_of(values.begin(), values.end(), [](auto value) { return value == 0; });
  };
  auto first = communicator.allocate_device<std::int32_t>(count);
  const auto second = communicator.allocate_device<std::int32_t>(count);
  if (!is_zero(first) || !is_zero(second)) return "new memory is not zero";
  const std::vector<std::int32_t> ones(count, 1);
  memory.copy_to_device(first.data(), ones.data(), count * 4);
  const auto* const address = first.data();
  auto copy = first;
  first = {};
  const auto third = communicator.allocate_device<std::int32_t>(count);
  if (third.data() == address) return "memory that is still used was given away";
  if (communicator.rank() == 0) copy = {};  // dropped, but not by all ranks
  const auto fourth = communicator.allocate_device<std::int32_t>(count);
  if (fourth.data() == address) return "memory that another rank still uses was given away";
  copy = {};
  const auto fifth = communicator.allocate_device<std::int32_t>(count - 1);
  if (communicator.size() > 1 && fifth.data() != address)
    return "dropped memory was not used again";
  if (!is_zero(fifth)) return "memory that is used again is not zero";
  if (communicator.allocate_device<std::int32_t>(0).data() != nullptr)
    return "0 elements have memory";
  try {
    const auto own = count + (communicator.rank() == 1 ? 1 : 0);
    static_cast<void>(communicator.allocate_device<std::int32_t>(own));
    if (communicator.size() > 1) return "different counts were not refused";
  } catch (const Error& error) {
    if (error.code() != ErrorCode::mismatch) return error.what();
  }
  return {};
}

std::string check_burst(Communicator& communicator, device::DeviceMemory& first,
                        device::DeviceMemory& second, int calls) {
  const int size = communicator.size();
  const auto count_of = [](int call) { return static_cast<std::size_t>(1 + call * 37 % 9000); };
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  for (int call = 0; call < calls; ++call) {
    const std::vector<std::int32_t> values(count_of(call), communicator.rank() * 1000 + call);
    std::vector<std::byte> bytes(values.size() * 4);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    buffers.push_back(std::make_unique<DeviceBuffer>(first, bytes.size()));
    buffers.back()->upload(bytes);
  }
  for (int call = 0; call < calls; ++call) {
    const Stream stream((call % 2 == 0 ? first : second).stream());
    const device_span<std::int32_t> values(
        reinterpret_cast<std::int32_t*>(buffers[static_cast<std::size_t>(call)]->data()),
        count_of(call));
    if (call % 3 == 0) {
      communicator.all_reduce(in_place, values, sum, {.stream = stream});
    } else {
      communicator.broadcast(values, call % size, {.stream = stream});
    }
  }
  communicator.synchronize(Stream(first.stream()));
  communicator.synchronize(Stream(second.stream()));
  for (int call = 0; call < calls; ++call) {
    const auto bytes = buffers[static_cast<std::size_t>(call)]->download();
    std::vector<std::int32_t> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    const std::int32_t due =
        call % 3 == 0 ? 1000 * size * (size - 1) / 2 + size * call : 1000 * (call % size) + call;
    const auto wrong = std::find_if(values.begin(), values.end(),
                                    [&](std::int32_t value) { return value != due; });
    if (wrong != values.end()) {
      return fmt::format("call {} of a burst: element {} is {} and not {}", call,
                         wrong - values.begin(), *wrong, due);
    }
  }
  return {};
}

}  // namespace tutti::gpu_test
