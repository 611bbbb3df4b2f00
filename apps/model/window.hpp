#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "algorithm/schedule.hpp"

namespace tutti::model {

/// The steps that a rank keeps in flight, under the engine's rules: a step waits for those earlier
/// unfinished steps of the window that touch the same data, and starts after those of its stream.
class Window {
 public:
  static constexpr std::size_t size = 64;  ///< as the engine's
  static constexpr std::size_t none = size;

  explicit Window(const algorithm::Schedule& schedule)
      : cursor_(schedule),
        max_(schedule.window == 0 ? size
                                  : std::min(size, static_cast<std::size_t>(schedule.window))) {}

  /// Takes the next step in; its slot, or `none` if the window is full or the schedule at its end.
  std::size_t refill();
  /// No step is left.
  [[nodiscard]] bool is_over() const { return at_end_ && count_ == 0; }
  [[nodiscard]] const algorithm::Step& step(std::size_t slot) const { return slots_[slot].step; }
  [[nodiscard]] bool may_start(std::size_t slot) const {
    return traces_[slot].state == State::waiting && slots_[slot].waits_for == 0;
  }
  /// Both return the slots that may now start, as bits.
  std::uint64_t start(std::size_t slot);
  std::uint64_t finish(std::size_t slot);

 private:
  enum class State : std::uint8_t { waiting, started, done };
  /// What of a step matters to those behind it; empty regions where it touches nothing.
  struct Traces {
    algorithm::Region reads;
    algorithm::Region writes;
    algorithm::Buffer reads_in = algorithm::Buffer::input;
    algorithm::Buffer writes_in = algorithm::Buffer::input;
    State state = State::done;
    std::int32_t stream = -1;  ///< peer and direction
  };
  struct Slot {
    algorithm::Step step;
    int waits_for = 0;
    std::uint64_t until_done = 0;     ///< slots that wait until this one is done…
    std::uint64_t until_started = 0;  ///< …or has started
  };
  static Traces traces_of(const algorithm::Step& step);
  static bool conflict(const Traces& earlier, const Traces& later) noexcept;
  std::uint64_t release(std::uint64_t slots);
  void link(std::size_t slot);

  algorithm::Cursor cursor_;
  std::size_t max_;
  std::array<Slot, size> slots_;
  std::array<Traces, size> traces_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  bool at_end_ = false;
};

}  // namespace tutti::model
