#pragma once

#include <map>
#include <string>

#include "device/device_memory.hpp"
#include "support/fork_ranks.hpp"

/// Ranks by fork on a machine with made-up devices (fake_gpu/fake_gpu.hpp): LD_LIBRARY_PATH has to
/// name the folder of the made-up libraries, as meson does.
namespace tutti::device::test {

using namespace std::chrono_literals;
using tutti::test::Body;
using tutti::test::expect;
using tutti::test::Rank;
using tutti::test::Report;
using tutti::test::trouble;

using Variables = std::map<std::string, std::string>;

/// The file through which the made-up NCCLs of a job talk.
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

/// A job whose ranks have these variables in their environment.
std::vector<Report> run_on_devices(int ranks, const Variables& variables, const Body& body,
                                   std::chrono::nanoseconds limit = 60s);
/// From now on, in this process.
void set(const std::string& variable, const std::string& value);
/// The NCCL calls of this process so far: "id 1;init 2 0;all_reduce 4;"
[[nodiscard]] std::string nccl_trace();
/// An address of the made-up driver's, for what the library does not call itself.
[[nodiscard]] void* cuda_symbol(const char* name);
[[nodiscard]] void* nccl_symbol(const char* name);

}  // namespace tutti::device::test
