// Loads a plugin, unloads it, and continues while the resolver's thread still runs.
//
//     unload PLUGIN
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

namespace {

std::atomic<int> begun = 0;
std::atomic<int> answered = 0;

int fail(const char* what) {
  std::fprintf(stderr, "unload: %s\n", what);
  return 1;
}

}  // namespace

/// Overrides the C library's function, for the plugin too: a slow name server.
extern "C" int getaddrinfo(const char*, const char*, const addrinfo* hints, addrinfo**) {
  if (hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  ++begun;
  std::this_thread::sleep_for(std::chrono::seconds(2));
  ++answered;
  return EAI_AGAIN;
}

int main(int count, char** words) {
  if (count != 2) return fail("give a plugin");
  for (const auto& [name, value] : {std::pair{"RANK", "1"},
                                    {"WORLD_SIZE", "2"},
                                    {"LOCAL_RANK", "0"},
                                    {"MASTER_PORT", "20000"},
                                    {"MASTER_ADDR", "slow.example"},
                                    {"TUTTI_INSECURE", "1"},
                                    {"TUTTI_TIMEOUT", "300ms"},
                                    {"TUTTI_INIT", "env://"}}) {
    ::setenv(name, value, 1);
  }
  void* const plugin = ::dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return fail(::dlerror());
  auto* const use = reinterpret_cast<bool (*)()>(::dlsym(plugin, "use_tutti"));
  if (use == nullptr) return fail(::dlerror());
  if (!use()) return fail("set-up did not end as it should");
  if (begun == 0 || answered == begun) return fail("the resolver has no work left");
  if (::dlclose(plugin) != 0) return fail(::dlerror());
  while (answered < begun) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // The answer arrives after the plugin has been unloaded.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::puts("alive");
  return 0;
}
