#pragma once

#include <cstddef>

namespace tutti {

/// As memcpy.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

/// As memcpy, but past the caches of the processor, where it can: for data that the cache would not
/// keep until it is read. What was copied so is there for others before the next release store of
/// this thread.
void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

/// The same for one of many pieces, which are there for others after finish_streaming() only: to
/// wait for each takes as long as to copy a few KiB.
void stream_piece(std::byte* to, const std::byte* from, std::size_t bytes);
void finish_streaming();

}  // namespace tutti
