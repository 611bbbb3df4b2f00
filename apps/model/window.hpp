#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "algorithm/schedule.hpp"

namespace tutti::model {

/// The steps that a rank keeps in flight, under the engine's rules. A step waits for earlier
/// unfinished steps that access the same data, and starts after earlier steps of its stream.
class Window {
 public:
  static constexpr std::size_t size = 64;  ///< the same as the engine's
  static constexpr std::size_t none = size;

  explicit Window(const algorithm::Schedule& schedule)
      : cursor_(schedule),
        max_(schedule.window == 0 ? size
                                  : std::min(size, static_cast<std::size_t>(schedule.window))) {}

  /// Reads the next step of the schedule into a slot. Returns the slot, or `none` if the window is
  /// full or the schedule has ended.
  std::size_t refill();
  /// True if no step is left.
  [[nodiscard]] bool is_over() const { return at_end_ && count_ == 0; }
  [[nodiscard]] const algorithm::Step& step(std::size_t slot) const { return slots_[slot].step; }
  /// The chunk in shared memory that the step belongs to, from 0.
  [[nodiscard]] std::size_t chunk(std::size_t slot) const { return slots_[slot].chunk; }
  [[nodiscard]] bool may_start(std::size_t slot) const {
    return accesses_[slot].state == State::waiting && slots_[slot].waits_for == 0;
  }
  /// Both return a bit mask of the slots that may now start.
  std::uint64_t start(std::size_t slot);
  std::uint64_t finish(std::size_t slot);

 private:
  enum class State : std::uint8_t { waiting, started, done };
  /// What later steps depend on: regions that the step accesses (empty if none), and its stream.
  struct Accesses {
    algorithm::Region reads;
    algorithm::Region writes;
    algorithm::Buffer reads_in = algorithm::Buffer::input;
    algorithm::Buffer writes_in = algorithm::Buffer::input;
    State state = State::done;
    std::int32_t stream = -1;  ///< peer and direction
    algorithm::StepKind kind = algorithm::StepKind::copy;
  };
  struct Slot {
    algorithm::Step step;
    std::size_t chunk = 0;
    int waits_for = 0;
    std::uint64_t until_done = 0;     ///< slots that wait until this step is done…
    std::uint64_t until_started = 0;  ///< …or until it has started
  };
  static Accesses accesses_of(const algorithm::Step& step);
  static bool conflict(const Accesses& earlier, const Accesses& later) noexcept;
  std::uint64_t release(std::uint64_t slots);
  void link(std::size_t slot);

  algorithm::Cursor cursor_;
  std::size_t max_;
  std::array<Slot, size> slots_;
  std::array<Accesses, size> accesses_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t chunks_ = 0;  ///< opened by the steps taken so far
  bool at_end_ = false;
};

}  // namespace tutti::model
