#include "fake_ranks.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

namespace tutti::device::test {

SharedSegment::SharedSegment() : path_("/dev/shm/tutti_fake_nccl_XXXXXX") {
  const int file = ::mkstemp(path_.data());
  expect(file >= 0, "no file for the made-up NCCL");
  ::close(file);
}

SharedSegment::~SharedSegment() {
  ::unlink(path_.c_str());
}

std::vector<Report> run_on_devices(int ranks, const Variables& variables, const Body& body,
                                   std::chrono::nanoseconds limit) {
  const SharedSegment segment;
  return tutti::test::run_ranks(
      ranks,
      [&](Rank& rank) {
        set("FAKE_NCCL_SEGMENT", segment.path());
        for (const auto& [variable, value] : variables) set(variable, value);
        return body(rank);
      },
      limit);
}

void set(const std::string& variable, const std::string& value) {
  ::setenv(variable.c_str(), value.c_str(), 1);
}

namespace {

void* symbol(const char* library, const char* name) {
  void* const handle = ::dlopen(library, RTLD_NOW);
  expect(handle != nullptr, std::string(library) + " is not there: is LD_LIBRARY_PATH set?");
  void* const address = ::dlsym(handle, name);
  expect(address != nullptr, std::string(name) + " is missing");
  return address;
}

}  // namespace

std::string nccl_trace() {
  return reinterpret_cast<const char* (*)()>(nccl_symbol("fake_nccl_trace"))();
}

void* nccl_symbol(const char* name) {
  return symbol("libnccl.so.2", name);
}

void* cuda_symbol(const char* name) {
  return symbol("libcuda.so.1", name);
}

}  // namespace tutti::device::test
