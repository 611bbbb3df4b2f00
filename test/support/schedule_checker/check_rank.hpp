#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithm/schedule.hpp"
#include "support/schedule_checker/check_memory.hpp"
#include "support/schedule_checker/check_sets.hpp"
#include "support/schedule_checker/checker.hpp"

namespace tutti::algorithm {

/// An error that the checker has detected; its text is the result of check().
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Done by the rank alone, immediately.
inline bool is_local(const Step& step) {
  return step.kind == StepKind::copy || step.kind == StepKind::reduce ||
         step.kind == StepKind::combine;
}

/// One rank of a check: its memory, and its window of steps in flight.
class CheckedRank {
 public:
  static constexpr int max_window = 64;

  struct Slot {
    Step step;
    std::int32_t number = 0;
    std::uint64_t blockers = 0;  // slots of earlier steps that this one depends on
    std::int64_t moved = 0;      // elements sent or received so far
    std::size_t chunk = 0;       // of publish, release and steps that read what is published
    // Addresses that the step touches, in one range for all buffers, and its stream.
    Region written;
    Region read;
    Region also_read;
    int stream = -1;
  };

  CheckedRank(int rank, int size, const Schedule& schedule, CheckedMemory memory, int window);

  /// Fills the window with steps. Adds the slots of steps without dependencies to `ready`.
  void admit(std::vector<int>& ready);
  /// Ends the step in `slot`, then continues as admit() does.
  void finish(int slot, std::vector<int>& ready);

  /// Chunks of the steps admitted so far.
  [[nodiscard]] std::size_t chunks() const { return chunks_; }
  [[nodiscard]] bool finished() const { return exhausted_ && pending_ == 0; }
  [[nodiscard]] Slot& slot(int index) { return slots_[static_cast<std::size_t>(index)]; }
  /// The earliest unfinished step.
  [[nodiscard]] const Slot& oldest() const;

  /// Throws Fault if the element was never written.
  [[nodiscard]] const Symbol& read(const Slot& slot, Buffer buffer, std::int64_t index) const;
  /// Throws Fault if this element does not belong at `index` of output.
  void write(const Slot& slot, Buffer buffer, std::int64_t index, Symbol symbol);
  [[nodiscard]] const std::vector<Symbol>& memory(Buffer buffer) const {
    return memory_[static_cast<std::size_t>(buffer)];
  }

  /// The expected output.
  [[nodiscard]] const std::vector<Symbol>& wanted() const { return wanted_; }

  /// "rank 3, step 7 (send output[0, 4) to rank 1)"
  [[nodiscard]] std::string name(const Slot& slot) const;
  [[nodiscard]] std::string name(std::int32_t step_number) const;

 private:
  static void note_what_it_touches(Slot& slot);
  void require_sound(const Slot& slot) const;
  void require_inside(const Slot& slot, Buffer buffer, const Region& region) const;
  [[nodiscard]] std::uint64_t blockers_of(const Slot& slot) const;

  int rank_;
  int size_;
  const Schedule& schedule_;
  bool in_place_;
  int window_;
  Cursor cursor_;
  std::array<std::vector<Symbol>, 3> memory_;
  std::vector<Symbol> wanted_;
  std::array<Slot, max_window> slots_;
  std::int32_t base_ = 0;  // number of the earliest step in the window
  std::int32_t next_ = 0;  // number of the next step to admit
  std::uint64_t pending_ = 0;
  std::size_t chunks_ = 0;  // opened by the steps admitted so far
  bool exhausted_ = false;
};

}  // namespace tutti::algorithm
