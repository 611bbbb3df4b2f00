#include <errno.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "tutti/error.hpp"

namespace tutti {
namespace {

// The rank that prints may have waited half a second for goodbyes before it comes to it.
constexpr std::chrono::milliseconds silence_of_others{800};

}  // namespace

void report_once(const Error& error) noexcept {
  if (error.speaks_for_job()) {
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, error.what());
    std::fflush(stderr);
    return;
  }
  std::this_thread::sleep_for(silence_of_others);
}

void abort_after(const Error& error) noexcept {
  report_once(error);
  std::fflush(nullptr);
  ::_exit(1);
}

}  // namespace tutti
