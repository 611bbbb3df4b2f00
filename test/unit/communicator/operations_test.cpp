// Arguments that the typed calls accept or reject at compile time, and the resulting calls.
#include "tutti/operations.hpp"

#include <array>
#include <list>
#include <span>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "tutti/allocation.hpp"
#include "tutti/operations_v.hpp"

namespace tutti::test {
namespace {

struct Particle {
  double position;
  int charge;
  char kind;
};

/// Records the latest call.
class Caller : public Operations<Caller>, public OperationsV<Caller> {
 public:
  void run(const Collective& call, const CallOptions& options = {}) {
    collective = call;
    counts.assign(call.counts.begin(), call.counts.end());
    displacements.assign(call.displacements.begin(), call.displacements.end());
    tag = options.tag;
  }
  int run(const Message& call, const CallOptions& options = {}) {
    message = call;
    tag = options.tag;
    return call.from;
  }
  Work start(const Collective& call, const CallOptions& options = {}) {
    run(call, options);
    return {};
  }
  Work start(const Message& call, const CallOptions& options = {}) {
    run(call, options);
    return {};
  }

  Collective collective;
  Message message;
  std::vector<std::size_t> counts;
  std::vector<std::size_t> displacements;
  std::uint32_t tag = 0;
};

template <class S, class R>
concept CanAllReduce = requires(Caller caller, S send, R recv) {
  caller.all_reduce(send, recv, sum);
  caller.start_all_reduce(send, recv, sum);
};
template <class S, class R>
concept CanAllGather = requires(Caller caller, S send, R recv) {
  caller.all_gather(send, recv);
  caller.start_all_gather(send, recv);
};
template <class B>
concept CanBroadcast = requires(Caller caller, B buffer) {
  caller.broadcast(buffer, 0);
};
template <class T>
concept CanReduceValue = requires(Caller caller, T value) {
  caller.all_reduce(value, sum);
};
template <class B>
concept CanSend = requires(Caller caller, B buffer) {
  caller.send(buffer, 0);
};
template <class B>
concept CanReceive = requires(Caller caller, B buffer) {
  caller.recv(buffer, 0);
};

using Floats = std::vector<float>;
using Particles = std::vector<Particle>;

}  // namespace

TEST_CASE("any contiguous range is a buffer, and a struct's bytes travel") {
  STATIC_REQUIRE(CanBroadcast<Floats>);
  STATIC_REQUIRE(CanBroadcast<std::span<float>>);
  STATIC_REQUIRE(CanBroadcast<std::array<float, 4>>);
  STATIC_REQUIRE(CanBroadcast<Allocation<float>>);
  STATIC_REQUIRE(CanBroadcast<device_span<float>>);
  STATIC_REQUIRE(CanBroadcast<Particles>);
  STATIC_REQUIRE(CanBroadcast<std::vector<short>>);
  STATIC_REQUIRE(CanBroadcast<device_span<Particle>>);
  STATIC_REQUIRE(!CanBroadcast<std::span<const float>>);
  STATIC_REQUIRE(!CanBroadcast<const Floats>);
  STATIC_REQUIRE(!CanBroadcast<std::list<float>>);
  STATIC_REQUIRE(!CanBroadcast<std::vector<int*>>);
  STATIC_REQUIRE(!CanBroadcast<std::vector<std::vector<float>>>);
  STATIC_REQUIRE(CanSend<std::string_view>);
  STATIC_REQUIRE(CanSend<std::span<const Particle>>);
  STATIC_REQUIRE(!CanReceive<std::span<const Particle>>);
}

TEST_CASE("send and receive buffers are of one memory and one type") {
  STATIC_REQUIRE(CanAllGather<Floats, std::span<float>>);
  STATIC_REQUIRE(CanAllGather<std::span<const float>, Floats>);
  STATIC_REQUIRE(CanAllGather<InPlace, Floats>);
  STATIC_REQUIRE(CanAllGather<Particles, Particles>);
  STATIC_REQUIRE(!CanAllGather<Floats, std::vector<double>>);
  STATIC_REQUIRE(!CanAllGather<Floats, device_span<float>>);
  STATIC_REQUIRE(!CanAllGather<device_span<float>, Floats>);
  STATIC_REQUIRE(!CanAllGather<Floats, InPlace>);
}

TEST_CASE("only numbers are reduced") {
  STATIC_REQUIRE(CanAllReduce<Floats, Floats>);
  STATIC_REQUIRE(CanAllReduce<InPlace, std::vector<half>>);
  STATIC_REQUIRE(!CanAllReduce<Particles, Particles>);
  STATIC_REQUIRE(!CanAllReduce<InPlace, std::vector<bool>>);
  STATIC_REQUIRE(!CanAllReduce<InPlace, std::vector<std::byte>>);
  // Only NCCL has 8-bit floats.
  STATIC_REQUIRE(!CanAllReduce<InPlace, std::vector<float8_e4m3>>);
  STATIC_REQUIRE(CanAllReduce<InPlace, device_span<float8_e4m3>>);
  STATIC_REQUIRE(!CanAllReduce<InPlace, device_span<Particle>>);
}

TEST_CASE("a value is what is no buffer") {
  STATIC_REQUIRE(CanBroadcast<double>);
  STATIC_REQUIRE(CanBroadcast<Particle>);
  STATIC_REQUIRE(!CanBroadcast<const double>);
  STATIC_REQUIRE(!CanBroadcast<int*>);
  STATIC_REQUIRE(!CanBroadcast<InPlace>);
  STATIC_REQUIRE(CanReduceValue<float>);
  STATIC_REQUIRE(CanReduceValue<const std::int64_t>);
  STATIC_REQUIRE(CanReduceValue<bfloat16>);
  STATIC_REQUIRE(!CanReduceValue<Particle>);
  STATIC_REQUIRE(CanReduceValue<bool>);
  STATIC_REQUIRE(!CanReduceValue<std::array<float, 4>>);
  STATIC_REQUIRE(!CanReduceValue<Floats>);
}

TEST_CASE("a call becomes its description") {
  Caller caller;
  std::vector<float> send(6);
  std::array<float, 3> recv{};
  caller.reduce_scatter(send, recv, max, {.tag = 7});
  CHECK(caller.collective.operation == Operation::reduce_scatter);
  CHECK(caller.collective.type == Type::f32);
  CHECK(caller.collective.op == max);
  CHECK(caller.collective.root == -1);
  CHECK(caller.collective.send == send.data());
  CHECK(caller.collective.send_count == 6);
  CHECK(caller.collective.recv == recv.data());
  CHECK(caller.collective.recv_count == 3);
  CHECK(!caller.collective.in_place);
  CHECK(caller.collective.memory == Memory::host);
  CHECK(caller.tag == 7);

  const device_span<half> on_device(nullptr, 9);
  caller.start_reduce(in_place, on_device, sum, 2).wait();
  CHECK(caller.collective.type == Type::f16);
  CHECK(caller.collective.root == 2);
  CHECK(caller.collective.send == nullptr);
  CHECK(caller.collective.recv_count == 9);
  CHECK(caller.collective.in_place);
  CHECK(caller.collective.memory == Memory::device);

  int words[5] = {};
  caller.send(words, 4);
  CHECK(caller.message.operation == Operation::send);
  CHECK(caller.message.send == words);
  CHECK(caller.message.send_count == 5);
  CHECK(caller.message.to == 4);
}

TEST_CASE("structs are counted in bytes, the counts of v-forms too") {
  Caller caller;
  std::vector<Particle> particles(3);
  caller.send_recv(std::span(particles).first(1), 1, std::span(particles).last(2), 0);
  CHECK(caller.message.type == Type::u8);
  CHECK(caller.message.send_count == sizeof(Particle));
  CHECK(caller.message.recv_count == 2 * sizeof(Particle));

  const std::vector<std::size_t> counts{1, 0, 2};
  caller.gather_v(std::span<const Particle>(particles).first(1), particles, counts, 0);
  CHECK(caller.collective.type == Type::u8);
  CHECK(caller.counts == std::vector<std::size_t>{sizeof(Particle), 0, 2 * sizeof(Particle)});
  std::vector<float> numbers(3);
  caller.gather_v(std::span<const float>(numbers).first(1), numbers, counts, 0);
  CHECK(caller.counts == counts);
  CHECK(caller.displacements.empty());

  const std::array<std::size_t, 3> begins{2, 0, 0};
  caller.scatter_v(particles, std::span(particles).first(1), {counts, begins}, 0);
  CHECK(caller.counts == std::vector<std::size_t>{sizeof(Particle), 0, 2 * sizeof(Particle)});
  CHECK(caller.displacements == std::vector<std::size_t>{2 * sizeof(Particle), 0, 0});
  caller.gather_v(std::span<const float>(numbers).first(1), std::span<float>(), {}, 0);
  CHECK(caller.counts.empty());
  caller.all_to_all_v(numbers, begins, numbers, {counts, begins});
  CHECK(caller.counts == std::vector<std::size_t>{2, 0, 0});
  CHECK(caller.displacements.empty());
  CHECK(caller.collective.recv_displacements.data() == begins.data());
}

TEST_CASE("a value is a buffer of one") {
  Caller caller;
  Particle one{};
  caller.broadcast(one, 3);
  CHECK(caller.collective.operation == Operation::broadcast);
  CHECK(caller.collective.recv == &one);
  CHECK(caller.collective.recv_count == sizeof(Particle));
  CHECK(caller.all_reduce(2.5, sum) == 2.5);
  CHECK(caller.collective.operation == Operation::all_reduce);
  CHECK(caller.collective.type == Type::f64);
  CHECK(caller.collective.recv_count == 1);
  CHECK(caller.collective.in_place);

  std::array<double, 2> two{};
  caller.broadcast(two, 0);
  CHECK(caller.collective.recv == two.data());
  CHECK(caller.collective.recv_count == 2);
}

TEST_CASE("options that nobody sets cost no more than their bytes") {
  STATIC_REQUIRE(std::is_trivially_copyable_v<CallOptions>);
  STATIC_REQUIRE(std::is_trivially_destructible_v<CallOptions>);
  STATIC_REQUIRE(sizeof(CallOptions) <= 64);
}

}  // namespace tutti::test
