#include "allocation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "device/setup_exchange.hpp"
#include "device_block.hpp"

namespace tutti::device {
namespace {

void require_equal(const AllocationParts& parts, const std::vector<std::uint64_t>& bytes) {
  const auto other = std::find_if(bytes.begin(), bytes.end(),
                                  [&](std::uint64_t one) { return one != bytes.front(); });
  if (other == bytes.end()) return;
  const auto& peers = parts.detector.peers();
  const auto world = [&](std::ptrdiff_t member) {
    return parts.group.world_of(static_cast<int>(member));
  };
  throw Error(ErrorCode::mismatch,
              fmt::format("allocate_device(): {} allocates {} bytes and {} {}: pass the same count "
                          "on all ranks",
                          peers.describe(world(0)), bytes.front(),
                          peers.describe(world(other - bytes.begin())), *other));
}

}  // namespace

std::shared_ptr<void> allocate_together(const AllocationParts& parts, std::size_t bytes,
                                        std::chrono::nanoseconds timeout) {
  SetupExchange setup(parts.detector.peers(), parts.group, parts.host,
                      parts.detector.deadline(timeout));
  std::vector<std::uint64_t> all(static_cast<std::size_t>(parts.group.size()));
  all[static_cast<std::size_t>(parts.group.rank)] = bytes;
  setup.all_gather(all.data(), sizeof all.front());
  require_equal(parts, all);
  if (bytes == 0) return nullptr;
  if (parts.direct != nullptr) return parts.direct->allocate(bytes, setup);
  std::shared_ptr<DeviceBlock> block;
  setup.step([&] { block = std::make_shared<DeviceBlock>(parts.context, bytes); });
  return {block, block->data()};
}

}  // namespace tutti::device
