// Memory exported to the other ranks of a host.
#include "transport/heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/descriptor.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::transport::test {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t heap_bytes = 16 * page;
constexpr std::size_t begin = 4 * page;

struct Segment {
  Descriptor file{::memfd_create("heap", MFD_CLOEXEC)};
  Segment() { REQUIRE(::ftruncate(file.get(), begin + 2 * heap_bytes) == 0); }
};

}  // namespace

TEST_CASE("a rank's allocation is found by others through its offset") {
  const Segment segment;
  Heap first(segment.file.get(), begin, heap_bytes, 0, 2);
  Heap second(segment.file.get(), begin, heap_bytes, 1, 2);
  REQUIRE(first.is_reachable());
  auto* const ours = first.allocate(100);
  auto* const theirs = second.allocate(3 * page);
  REQUIRE(ours != nullptr);
  REQUIRE(theirs != nullptr);
  std::memset(ours, 7, 100);
  std::memset(theirs, 9, 3 * page);
  const auto place = first.offset_of(ours + 10, 90);
  REQUIRE(place);
  CHECK(second.address_of(0, *place, 90)[0] == std::byte{7});
  CHECK(first.address_of(1, *second.offset_of(theirs, 3 * page), 3 * page)[3 * page - 1] ==
        std::byte{9});
}

TEST_CASE("memory of another rank is readable and not writable") {
  const Segment segment;
  Heap first(segment.file.get(), begin, heap_bytes, 0, 2);
  Heap second(segment.file.get(), begin, heap_bytes, 1, 2);
  auto* const ours = first.allocate(page);
  REQUIRE(ours != nullptr);
  const auto* const seen = second.address_of(0, *first.offset_of(ours, page), page);
  const Descriptor zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  CHECK(::read(zeros.get(), ours, 1) == 1);
  // The kernel reports what a store would do.
  CHECK(::read(zeros.get(), const_cast<std::byte*>(seen), 1) == -1);
  CHECK(errno == EFAULT);
  ours[0] = std::byte{3};
  CHECK(seen[0] == std::byte{3});
}

TEST_CASE("memory not entirely in this rank's heap has no offset") {
  const Segment segment;
  Heap heap(segment.file.get(), begin, heap_bytes, 0, 2);
  int other = 0;
  CHECK(!heap.offset_of(reinterpret_cast<std::byte*>(&other), sizeof other));
  auto* const piece = heap.allocate(page);
  CHECK(heap.offset_of(piece, heap_bytes));
  CHECK(!heap.offset_of(piece, heap_bytes + 1));
  CHECK(!heap.offset_of(piece - 1, 1));
}

TEST_CASE("pieces are allocated until none is left, and released in any order") {
  const Segment segment;
  Heap heap(segment.file.get(), begin, heap_bytes, 0, 2);
  CHECK(heap.allocate(heap_bytes + 1) == nullptr);
  auto* const a = heap.allocate(5 * page);
  auto* const b = heap.allocate(5 * page);
  auto* const c = heap.allocate(6 * page - 10);
  REQUIRE(a != nullptr);
  REQUIRE(b != nullptr);
  REQUIRE(c != nullptr);
  CHECK(heap.allocate(1) == nullptr);
  std::memset(b, 1, 5 * page);
  heap.release(a);
  heap.release(c);
  CHECK(heap.allocate(7 * page) == nullptr);
  heap.release(b);
  auto* const all = heap.allocate(heap_bytes);
  REQUIRE(all != nullptr);
  for (std::size_t i = 0; i < heap_bytes; ++i) REQUIRE(all[i] == std::byte{0});
}

TEST_CASE("a published offset outside the peer's heap is refused") {
  const Segment segment;
  Heap heap(segment.file.get(), begin, heap_bytes, 0, 2);
  CHECK_THROWS_AS(heap.address_of(1, heap_bytes, 1), Error);
  CHECK_THROWS_AS(heap.address_of(1, 0, heap_bytes + 1), Error);
  CHECK_THROWS_AS(heap.address_of(1, UINT64_MAX, 2), Error);
}

TEST_CASE("without heaps nothing can be allocated or found") {
  const Segment segment;
  Heap heap(segment.file.get(), begin, 0, 0, 2);
  CHECK(!heap.is_reachable());
  CHECK(heap.allocate(1) == nullptr);
  std::byte other{};
  CHECK(!heap.offset_of(&other, 1));
  CHECK_THROWS_AS(heap.address_of(1, 0, 1), Error);
}

}  // namespace tutti::transport::test
