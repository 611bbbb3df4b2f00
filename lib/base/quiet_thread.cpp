#include "base/quiet_thread.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "base/control_groups.hpp"
#include "base/system_error.hpp"
#include "base/text_file.hpp"

namespace tutti {
namespace {

/// Empty if the file is unreadable.
std::string first_word(const std::filesystem::path& path) {
  const auto text = read_text_file(path.c_str()).value_or("");
  std::string_view rest = text;
  return std::string(take_word(rest));
}

/// "pids.max of control group /a is 3, and 3 are in use"; empty if no limit is reached.
std::string limit_of_groups() {
  for (const auto& [name, folder] : control_groups("pids")) {
    const auto max_value = first_word(folder / "pids.max");
    const auto used = first_word(folder / "pids.current");
    // Of nested groups, the one at its limit refuses.
    if (!max_value.empty() && max_value != "max" &&
        (used.size() > max_value.size() ||
         (used.size() == max_value.size() && used >= max_value))) {
      return fmt::format("pids.max of control group {} is {}, and {} are in use", name, max_value,
                         used);
    }
  }
  return {};
}

std::string limits() {
  auto result = limit_of_groups();
  if (!result.empty()) return result;
  const auto add = [&](const std::string& text) {
    if (!result.empty()) result += "; ";
    result += text;
  };
  rlimit limit{};
  if (::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    add(fmt::format("RLIMIT_NPROC (ulimit -u) is {} for all processes and threads of the user",
                    limit.rlim_cur));
  }
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    add(fmt::format("RLIMIT_AS (ulimit -v) is {} bytes, of which a thread's stack takes a part",
                    limit.rlim_cur));
  }
  return result.empty() ? "no limit of this process or its control group is reached" : result;
}

}  // namespace

Error no_thread(const char* purpose, const std::system_error& error) {
  return {ErrorCode::system,
          fmt::format("can't start a thread {}: {}: {}: tutti needs two threads a rank beside the "
                      "program's own, raise the limit or start fewer processes",
                      purpose, errno_text(error.code().value()), limits())};
}

struct ReservedThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::function<void()> work;
};

ReservedThread::ReservedThread(const char* purpose, std::function<void()> meanwhile)
    : state_(std::make_shared<State>()) {
  thread_ = start_quiet_thread(purpose, [state = state_, meanwhile = std::move(meanwhile)] {
    constexpr std::chrono::milliseconds pause{100};
    std::unique_lock lock(state->mutex);
    const auto is_due = [&] { return state->over || state->work; };
    if (!meanwhile) state->changed.wait(lock, is_due);
    while (!state->changed.wait_for(lock, pause, is_due)) meanwhile();
    const auto work = std::move(state->work);
    lock.unlock();
    if (work) work();
  });
}

ReservedThread::~ReservedThread() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
    state_->changed.notify_all();
  }
  thread_.join();
}

void ReservedThread::run(std::function<void()> work) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->work = std::move(work);
  }
  // After the lock: the thread would wait for it.
  state_->changed.notify_all();
}

}  // namespace tutti
