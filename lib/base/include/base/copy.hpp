#pragma once

#include <cstddef>

namespace tutti {

/// Like memcpy.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

/// Like memcpy, but with non-temporal stores where available: for data that the cache would not
/// keep until it is read. The data is visible to other threads before this thread's next release
/// store.
void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

/// Like stream_bytes() for one of many pieces; they become visible only with finish_streaming(),
/// because a fence per piece costs as much as copying a few KiB.
void stream_piece(std::byte* to, const std::byte* from, std::size_t bytes);
void finish_streaming();

}  // namespace tutti
