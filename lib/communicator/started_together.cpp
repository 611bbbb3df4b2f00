#include <algorithm>
#include <exception>
#include <vector>

#include "communicator/backend.hpp"
#include "tutti/error.hpp"

namespace tutti {
namespace {

/// Several calls as one.
class StartedTogether final : public Pending {
 public:
  void add(std::unique_ptr<Pending> call) { calls_.push_back(std::move(call)); }

  /// Waits until all have ended, successful or not.
  void finish() {
    for (; done_ < calls_.size(); ++done_) {
      while (!wait_for_next(std::chrono::seconds(1))) {
      }
    }
  }
  bool wait_for(std::chrono::nanoseconds limit) override {
    const auto start = std::chrono::steady_clock::now();
    for (; done_ < calls_.size(); ++done_) {
      const auto left = limit - (std::chrono::steady_clock::now() - start);
      if (!wait_for_next(std::max<std::chrono::nanoseconds>(left, {}))) return false;
    }
    if (error_) std::rethrow_exception(error_);
    return true;
  }
  void order_before(void* stream) override {
    for (auto call = done_; call < calls_.size(); ++call) calls_[call]->order_before(stream);
  }

 private:
  /// After an error the others must end, too, before their buffers are free.
  bool wait_for_next(std::chrono::nanoseconds limit) {
    try {
      return calls_[done_]->wait_for(limit);
    } catch (const std::exception&) {
      if (!error_) error_ = std::current_exception();
      return true;
    }
  }

  std::vector<std::unique_ptr<Pending>> calls_;
  std::size_t done_ = 0;
  std::exception_ptr error_;
};

}  // namespace

std::unique_ptr<Pending> Backend::start_together(std::span<const Message> messages,
                                                 const CallSettings& settings) {
  auto together = std::make_unique<StartedTogether>();
  try {
    for (const auto& message : messages) together->add(start(message, settings));
  } catch (...) {
    // Those that have started still use their buffers.
    together->finish();
    throw;
  }
  return together;
}

std::shared_ptr<void> Backend::allocate_device(std::size_t, const CallSettings&) {
  throw Error(ErrorCode::usage, "host memory has no allocate_device(): call allocate()");
}

}  // namespace tutti
