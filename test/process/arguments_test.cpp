// Invalid arguments: an error with the value, and a communicator that still works.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "algorithm/choice.hpp"
#include "pattern.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

struct Misuse {
  const char* name;
  std::function<void(Communicator&, std::vector<float>&)> call;
  std::vector<std::string> words;  ///< parts of the error
};

std::vector<Misuse> misuses() {
  using C = Communicator;
  using V = std::vector<float>;
  return {
      {"broadcast root", [](C& c, V& v) { c.broadcast(std::span(v), 3); }, {"root 3", "0 to 2"}},
      {"broadcast root below 0", [](C& c, V& v) { c.broadcast(std::span(v), -1); }, {"root -1"}},
      {"fan_out root", [](C& c, V& v) { c.fan_out(std::span(v), 1000000); }, {"root 1000000"}},
      {"send to", [](C& c, V& v) { c.send(std::span(v), 3); }, {"receiver 3"}},
      {"recv from", [](C& c, V& v) { c.recv(std::span(v), -7); }, {"sender -7"}},
      {"send_recv to",
       [](C& c, V& v) { c.send_recv(std::span(v).first(10), 5, std::span(v).last(10), 0); },
       {"receiver 5"}},
      {"send_recv from",
       [](C& c, V& v) { c.send_recv(std::span(v).first(10), 0, std::span(v).last(10), 5); },
       {"sender 5"}},
      {"send to oneself",
       [](C& c, V& v) { c.send(std::span(v), c.rank()); },
       {"itself", "send_recv"}},
      {"send_recv from any rank",
       [](C& c, V& v) {
         c.send_recv(std::span(v).first(10), (c.rank() + 1) % 3, std::span(v).last(10), any_rank);
       },
       {"send_recv", "any rank"}},
      {"recv from oneself",
       [](C& c, V& v) { c.recv(std::span(v), c.rank()); },
       {"itself", "send_recv"}},
      {"null buffer",
       [](C& c, V&) { c.broadcast(std::span(static_cast<float*>(nullptr), 17), 0); },
       {"null", "17"}},
      {"null send buffer",
       [](C& c, V& v) {
         c.all_reduce(std::span(static_cast<float*>(nullptr), 18), std::span(v).first(18), sum);
       },
       {"null", "18"}},
      {"null receive buffer",
       [](C& c, V& v) {
         c.all_reduce(std::span(v).first(19), std::span(static_cast<float*>(nullptr), 19), sum);
       },
       {"null", "19"}},
      {"null to send",
       [](C& c, V&) { c.send(std::span(static_cast<float*>(nullptr), 20), (c.rank() + 1) % 3); },
       {"null", "20"}},
      {"overlap",
       [](C& c, V& v) { c.all_reduce(std::span(v).first(50), std::span(v).subspan(1, 50), sum); },
       {"overlap"}},
      {"overlap the other way",
       [](C& c, V& v) { c.all_reduce(std::span(v).subspan(49, 50), std::span(v).first(50), sum); },
       {"overlap"}},
      {"overlap in send_recv",
       [](C& c, V& v) {
         c.send_recv(std::span(v).first(50), (c.rank() + 1) % 3, std::span(v).subspan(49, 50),
                     (c.rank() + 2) % 3);
       },
       {"overlap"}},
      {"counts that differ",
       [](C& c, V& v) { c.all_reduce(std::span(v).first(10), std::span(v).last(11), sum); },
       {"10", "11"}},
      {"a count beyond memory",
       [](C& c, V& v) {
         c.run({.operation = Operation::broadcast,
                .type = Type::f64,
                .root = 0,
                .recv = v.data(),
                .recv_count = SIZE_MAX / 2});
       },
       {fmt::format("{}", SIZE_MAX / 2), "f64"}},
      {"blocks that memory can't hold, each of which it could",
       [](C& c, V& v) {
         c.run(Collective{.operation = Operation::all_gather,
                          .type = Type::u8,
                          .send = v.data(),
                          .send_count = static_cast<std::size_t>(INT64_MAX) / 2 + 1,
                          .recv = v.data(),
                          .recv_count = 1});
       },
       {"blocks", "more than memory can hold"}},
      {"8-bit floats can't be reduced",
       [](C& c, V& v) {
         c.run({.operation = Operation::all_reduce,
                .type = Type::f8e4m3,
                .recv = v.data(),
                .recv_count = 10,
                .in_place = true});
       },
       {"f8e4m3", "sum"}},
      {"bitwise operators are for integers",
       [](C& c, V& v) { c.all_reduce(in_place, std::span(v), bit_xor); },
       {"f32", "bit_xor", "integers"}},
      {"complex numbers have no order",
       [](C& c, V& v) {
         c.run({.operation = Operation::all_reduce,
                .type = Type::c64,
                .op = Operator::max,
                .recv = v.data(),
                .recv_count = 10,
                .in_place = true});
       },
       {"c64", "max", "order"}},
      {"factors are for floats",
       [](C& c, V&) {
         std::array<int, 3> numbers{};
         c.all_reduce(in_place, std::span(numbers), premultiplied_sum(0.5));
       },
       {"i32", "premultiplied_sum", "multiply"}},
      {"a buffer that the ranks can't share evenly",
       [](C& c, V& v) { c.all_to_all(in_place, std::span(v).first(7)); },
       {"7", "3 ranks", "all_to_all_v"}},
      {"a receive buffer that is too small",
       [](C& c, V& v) { c.all_gather(std::span(v).first(5), std::span(v).subspan(10, 14)); },
       {"14", "15"}},
      {"counts for too few ranks",
       [](C& c, V& v) {
         const std::vector<std::size_t> two{3, 3};
         c.all_gather_v(std::span(v).first(3), std::span(v).subspan(10, 6), two);
       },
       {"counts", "2 entries", "3 ranks"}},
      {"counts beyond memory",
       [](C& c, V& v) {
         const std::vector<std::size_t> wild{SIZE_MAX, 2, 0};
         c.all_gather_v(std::span(v).first(2), std::span(v).subspan(10, 1), wild);
       },
       {"counts", "f32", "memory"}},
      {"scatter in place away from the root",
       [](C& c, V& v) { c.scatter(in_place, std::span(v).first(9), (c.rank() + 1) % 3); },
       {"in place", "root"}},
      {"the library's own tag",
       [](C& c, V& v) { c.send(std::span(v), (c.rank() + 1) % 3, {.tag = UINT32_MAX}); },
       {"tag", "4294967295"}},
      {"a stream for a collective in host memory",
       [](C& c, V& v) { c.broadcast(std::span(v), 0, {.stream = Stream()}); },
       {"CallOptions::stream", "host memory"}},
      {"a stream for a message in host memory",
       [](C& c, V& v) { c.send(std::span(v), (c.rank() + 1) % 3, {.stream = Stream()}); },
       {"CallOptions::stream", "host memory"}},
      {"a stream for a split",
       [](C& c, V&) { static_cast<void>(c.split(0, 0, {.stream = Stream()})); },
       {"CallOptions::stream", "host memory"}},
      {"device memory without devices",
       [](C& c, V& v) { c.broadcast(device_span(v.data(), v.size()), 0); },
       {"device memory", "device path"}},
      {"a barrier on a stream without devices",
       [](C& c, V&) { c.barrier({.stream = Stream()}); },
       {"device memory", "device path"}},
      {"run of no operation", [](C& c, V&) { c.run(Collective{}); }, {"no call", "run()"}},
      {"start of no operation",
       [](C& c, V&) { c.start(Collective{}).wait(); },
       {"no call", "run()"}},
      {"run of a finalize",
       [](C& c, V&) { c.run(Collective{.operation = Operation::finalize}); },
       {"finalize", "run()"}},
      {"start of a finalize",
       [](C& c, V&) { c.start(Collective{.operation = Operation::finalize}).wait(); },
       {"finalize", "run()"}},
      {"run of a split",
       [](C& c, V&) { c.run(Collective{.operation = Operation::split}); },
       {"split", "run()"}},
      {"run of a message as a collective",
       [](C& c, V& v) {
         c.run(Collective{.operation = Operation::send, .send = v.data(), .send_count = 4});
       },
       {"send", "run(Message)"}},
      {"run of a collective as a message",
       [](C& c, V&) { c.run(Message{.operation = Operation::barrier}); },
       {"barrier", "not a message"}},
      {"run of an operation that there is not",
       [](C& c, V&) { c.run(Collective{.operation = static_cast<Operation>(99)}); },
       {"unknown operation", "run()"}},
      {"a timeout of 0", [](C& c, V&) { c.barrier({.timeout = 0ns}); }, {"timeout", "0 ns"}},
      {"a timeout below 0",
       [](C& c, V&) { c.barrier({.timeout = -1s}); },
       {"timeout", "-1000000000 ns"}},
      {"unknown broadcast algorithm",
       [](C& c, V& v) { c.broadcast(std::span(v), 0, {.algorithm = "quantum"}); },
       {"broadcast", "quantum", "binomial", "chain", "scatter_ring", "direct"}},
      {"unknown all_reduce algorithm",
       [](C& c, V& v) { c.all_reduce(in_place, std::span(v), sum, {.algorithm = "chain"}); },
       {"all_reduce", "chain", "recursive_doubling", "ring"}},
      {"unknown fan_out algorithm",
       [](C& c, V& v) { c.fan_out(std::span(v), 0, {.algorithm = "Direct"}); },
       {"fan_out", "Direct", "direct"}},
      {"unknown barrier algorithm",
       [](C& c, V&) { c.barrier({.algorithm = "central"}); },
       {"barrier", "central", "dissemination"}},
  };
}

}  // namespace

TEST_CASE("invalid arguments are errors that name the value, and the communicator still works") {
  for (const auto& misuse : misuses()) {
    CAPTURE(misuse.name);
    const auto reports = run_ranks(3, [&misuse](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 5s});
      std::vector<float> data(100, 1.0F);
      std::string said;
      try {
        misuse.call(communicator, data);
        expect(false, "it was accepted");
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::usage, "another code: " + error.sentence());
        said = error.sentence();
      }
      for (const auto& word : misuse.words) {
        expect(said.find(word) != std::string::npos, fmt::format("no \"{}\" in: {}", word, said));
      }
      std::fill(data.begin(), data.end(), 2.0F);
      communicator.all_reduce(in_place, std::span(data), sum);
      for (const auto value : data) expect(value == 6.0F, "WRONG DATA after the error");
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("invalid arguments on one rank only: it may still make the right call afterwards") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 5s});
    std::vector<float> data(100, 1.0F);
    if (rank.rank() == 1) {
      try {
        communicator.broadcast(std::span(data), 99);
        expect(false, "it was accepted");
      } catch (const Error&) {
      }
    }
    communicator.broadcast(std::span(data), 0);
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE(
    "a call that differs from the previous one in one argument is checked and executed anew") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 5s});
    // 40 bytes, a page, and more.
    for (const std::size_t count : {10U, 500U, 3000U}) {
      std::vector<float> in(2 * count);
      std::vector<float> out(2 * count);
      const auto all_reduce = [&](std::size_t from, std::size_t elements, std::size_t to, auto op,
                                  float expected) {
        for (std::size_t i = 0; i < in.size(); ++i) {
          in[i] = static_cast<float>(rank.rank() + 1) + static_cast<float>(i % 7);
        }
        std::fill(out.begin(), out.end(), 0.0F);
        communicator.all_reduce(std::span(in).subspan(from, elements),
                                std::span(out).subspan(to, elements), op);
        expect(out[to] == expected, "WRONG DATA in the first element");
        expect(std::count(out.begin(), out.end(), 0.0F) ==
                   static_cast<std::ptrdiff_t>(out.size() - elements),
               "WRONG DATA beside the buffer");
      };
      const auto twice = [&](auto... arguments) {
        all_reduce(arguments...);
        all_reduce(arguments...);
      };
      twice(0U, count, 0U, sum, 3.0F);
      twice(1U, count, 0U, sum, 5.0F);      // another input
      twice(1U, count, 3U, sum, 5.0F);      // another output
      twice(1U, count - 4, 3U, sum, 5.0F);  // shorter
      twice(1U, count - 4, 3U, max, 3.0F);  // another operator
      std::vector<double> doubles(count, 2.0);
      communicator.all_reduce(in_place, std::span(doubles), max);
      expect(doubles.back() == 2.0, "WRONG DATA of another type");
      for (const int root : {0, 1, 0}) {
        std::fill(in.begin(), in.end(), static_cast<float>(rank.rank()));
        communicator.broadcast(std::span(in), root);
        expect(in.back() == static_cast<float>(root), "WRONG DATA from another root");
      }
      try {
        communicator.broadcast(std::span(in), 2);
        expect(false, "it was accepted");
      } catch (const Error&) {
      }
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("empty buffers may be null, and adjacent buffers do not overlap") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 5s});
    const std::span<float> none;
    communicator.broadcast(none, 0);
    communicator.fan_out(none, 0);
    communicator.all_reduce(none, none, sum);
    if (rank.rank() == 0) communicator.send(none, 1);
    if (rank.rank() == 1) communicator.recv(none, 0);
    communicator.send_recv(none, 1 - rank.rank(), none, 1 - rank.rank());
    std::vector<float> data(100, 1.0F);
    communicator.all_reduce(std::span(data).first(50), std::span(data).last(50), sum);
    for (std::size_t i = 0; i < 100; ++i) expect(data[i] == (i < 50 ? 1 : 2), "WRONG DATA");
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("invalid settings are reported before anything is sent") {
  struct Setting {
    const char* variable;
    const char* value;
  };
  for (const auto& [variable, value] :
       {Setting{"TUTTI_TIMEOUT", "soon"}, Setting{"TUTTI_TIMEOUT", "-1"},
        Setting{"TUTTI_TIMEOUT", "0"}, Setting{"TUTTI_CHUNK", "many"}, Setting{"TUTTI_CHUNK", "1"},
        Setting{"TUTTI_EAGER", "1GiB"}, Setting{"TUTTI_LOG", "loud"},
        Setting{"TUTTI_KEEPALIVE", "1ms"}, Setting{"TUTTI_CONGESTION", "warp"}}) {
    CAPTURE(variable, value);
    const auto reports =
        run_ranks(2, [variable = variable, value = value](Rank& rank) -> std::string {
          ::setenv(variable, value, 1);
          auto& communicator = rank.communicator({.timeout = 5s});
          communicator.barrier();
          return "accepted";
        });
    INFO(describe(reports));
    for (const auto& report : reports) {
      CHECK(report.failure);
      if (!report.failure) continue;
      CHECK(report.failure->code == ErrorCode::usage);
      CHECK(report.failure->sentence.find(fmt::format("{}={}", variable, value)) !=
            std::string::npos);
    }
  }
}

TEST_CASE("an algorithm from the environment applies to the operations that have it") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    ::setenv("TUTTI_ALGORITHM", "ring", 1);
    auto& communicator = rank.communicator({.timeout = 5s});
    std::vector<float> data(4, 1.0F);
    communicator.all_reduce(in_place, std::span(data), sum);
    expect(communicator.latest_algorithm() == "ring", communicator.latest_algorithm());
    communicator.all_reduce(in_place, std::span(data), sum, {.algorithm = "recursive_doubling"});
    expect(communicator.latest_algorithm() == "recursive_doubling", "the call's own name wins");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
