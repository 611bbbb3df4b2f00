#pragma once

#include <map>
#include <string>

#include "device/device_memory.hpp"
#include "support/fork_ranks.hpp"

/// Forked ranks on a machine with fake devices (fake_gpu/fake_gpu.hpp). LD_LIBRARY_PATH must name
/// the folder of the fake libraries, as meson sets it.
namespace tutti::device::test {

using namespace std::chrono_literals;
using tutti::test::Body;
using tutti::test::errors_of;
using tutti::test::expect;
using tutti::test::Rank;
using tutti::test::Report;

using Variables = std::map<std::string, std::string>;

/// The file through which the fake NCCLs of a job communicate.
class SharedSegment {
 public:
  SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A job whose ranks have these environment variables.
std::vector<Report> run_on_devices(int ranks, const Variables& variables, const Body& body,
                                   std::chrono::nanoseconds limit = 60s);
/// Sets the variable in this process.
void set(const std::string& variable, const std::string& value);
/// The NCCL calls of this process so far: "id 1;init 2 0;all_reduce 4;"
[[nodiscard]] std::string nccl_trace();
/// The address of a symbol of the fake driver, for calls that the library does not use.
[[nodiscard]] void* cuda_symbol(const char* name);
[[nodiscard]] void* nccl_symbol(const char* name);

}  // namespace tutti::device::test
