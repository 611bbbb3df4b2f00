// Channels and links when later allocations fail.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "host.hpp"
#include "support/catch.hpp"

namespace tutti::transport::test {
namespace {

/// Runs `body` in a thread whose fallocate() fails with ENOSPC. Returns false if the system does
/// not allow such a filter.
template <class Body>
bool without_memory(Body body) {
  bool works = false;
  std::thread([&] {
    std::array filter{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    works = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
            ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    if (works) body();
  }).join();
  if (!works) WARN("this system does not let a thread refuse system calls to itself: not tested");
  return works;
}

struct Inspected {
  std::vector<std::string> texts;

  explicit Inspected(SharedSegment& segment) {
    segment.set_warning_sink([this](const std::string& text) { texts.push_back(text); });
  }
};

std::size_t memory_of(const Descriptor& file) {
  struct stat status {};
  REQUIRE(::fstat(file.get(), &status) == 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

}  // namespace

TEST_CASE("if other channels can't be allocated, none is free and one warning is given") {
  Host host;
  Inspected inspected(*host.first);
  const auto before = memory_of(host.file);
  if (!without_memory([&] {
        CHECK(host.first->free_channels() == 0);
        CHECK(host.first->free_channels() == 0);
      })) {
    return;
  }
  REQUIRE(inspected.texts.size() == 1);
  CHECK(inspected.texts[0].find("bytes of shared memory: No space left on device") !=
        std::string::npos);
  CHECK(memory_of(host.file) == before);
  CHECK(host.first->free_channels() == 0);  // decided for good: the other ranks rely on it
  CHECK(host.second->free_channels() != 0);
}

TEST_CASE("a channel whose ring can't grow continues with what it has") {
  Host host;
  Inspected inspected(*host.first);
  const std::vector<int> ranks{0, 1};
  CollectiveChannel channel(host.first, 0, 0, ranks, 0);
  const auto before = channel.next_span(0, channel.published_bytes());
  if (!without_memory([&] {
        channel.grow();
        channel.grow();
      })) {
    return;
  }
  REQUIRE(inspected.texts.size() == 1);
  CHECK(inspected.texts[0].find("long collective calls are slower") != std::string::npos);
  channel.reserve(0, before);
  // The second chunk needs the first one's memory.
  CHECK(channel.next_span(1, channel.published_bytes()).reads_before == 1);
}

TEST_CASE("a link whose ring can't grow wraps around in what it has, with correct data") {
  Host host;
  Inspected inspected(*host.first);
  HalfPair halves(std::size_t{64} << 10, host.dial(), host.accept());
  halves.pump();
  const auto before = memory_of(host.file);
  if (!without_memory([&] {
        std::uint64_t sequence = 0;
        for (const std::size_t size : {100, 20'000, 40'000, 300'000, 5'000, 3'000'000}) {
          Sending sending(collective(++sequence), pattern(size));
          Receiving receiving(collective(sequence), size);
          halves.out.post(sending.request);
          halves.in.post(receiving.request);
          halves.pump();
          INFO("message of " << size << " bytes");
          REQUIRE(receiving.request.done());
          REQUIRE(receiving.bytes == sending.bytes);
          halves.out.finish(sending.call.key);
          halves.in.finish(receiving.call.key);
        }
      })) {
    return;
  }
  REQUIRE(inspected.texts.size() == 1);
  CHECK(inspected.texts[0].find("long messages inside this host are slower") != std::string::npos);
  CHECK(memory_of(host.file) == before);
}

}  // namespace tutti::transport::test
