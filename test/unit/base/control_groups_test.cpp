// Control groups and their quotas, in generated trees.
#include "base/control_groups.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "support/catch.hpp"

namespace tutti::test {
namespace {

namespace fs = std::filesystem;

/// A directory in place of "/".
class Tree {
 public:
  Tree() {
    std::string name = (fs::temp_directory_path() / "tutti-groups-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  Tree& write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
    return *this;
  }
  Tree& groups(const std::string& text) { return write("proc/self/cgroup", text); }
  Tree& mounts(const std::string& text) { return write("proc/self/mountinfo", text); }
  [[nodiscard]] std::vector<CpuQuota> quotas() const { return find_cpu_quotas(root_); }
  [[nodiscard]] const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

constexpr const char* version_2 = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
constexpr const char* version_1 =
    "30 23 0:27 / /sys/fs/cgroup rw shared:4 - tmpfs tmpfs rw,mode=755\n"
    "31 23 0:28 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory\n"
    "32 23 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:6 - cgroup cgroup rw,cpu,cpuacct";

}  // namespace

TEST_CASE("quotas of version 2 are found at every level, innermost first") {
  Tree tree;
  tree.mounts(version_2).groups("0::/pod/a");
  CHECK(tree.quotas().empty());
  tree.write("sys/fs/cgroup/pod/a/cpu.max", "max 100000");
  tree.write("sys/fs/cgroup/pod/cpu.max", "50000 100000");
  auto quotas = tree.quotas();
  REQUIRE(quotas.size() == 1);
  CHECK(quotas[0].millicores == 500);
  CHECK(quotas[0].group == "/pod");
  CHECK(quotas[0].setting == "cpu.max 50000 100000");
  tree.write("sys/fs/cgroup/pod/a/cpu.max", "150000 100000");
  tree.write("sys/fs/cgroup/cpu.max", "400000 100000");
  quotas = tree.quotas();
  REQUIRE(quotas.size() == 3);
  CHECK(quotas[0].group == "/pod/a");
  CHECK(quotas[0].millicores == 1500);
  CHECK(quotas[1].group == "/pod");
  CHECK(quotas[2].group == "/");
  CHECK(quotas[2].millicores == 4000);
}

TEST_CASE("a quota of version 1 is found in the hierarchy of the controller cpu") {
  Tree tree;
  tree.mounts(version_1).groups("5:memory:/other\n4:cpu,cpuacct:/job/step\n0::/");
  tree.write("sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_quota_us", "-1");
  tree.write("sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_period_us", "100000");
  tree.write("sys/fs/cgroup/memory/other/cpu.cfs_quota_us", "1000");
  tree.write("sys/fs/cgroup/memory/other/cpu.cfs_period_us", "100000");
  CHECK(tree.quotas().empty());
  tree.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "25000");
  tree.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "50000");
  const auto quotas = tree.quotas();
  REQUIRE(quotas.size() == 1);
  CHECK(quotas[0].millicores == 500);
  CHECK(quotas[0].group == "/job");
  CHECK(quotas[0].setting == "cpu.cfs_quota_us 25000, cpu.cfs_period_us 50000");
}

TEST_CASE("all processes of a group compute the same identity for it") {
  Tree tree;
  tree.mounts(version_2).groups("0::/pod/a");
  tree.write("sys/fs/cgroup/pod/cpu.max", "50000 100000");
  tree.write("sys/fs/cgroup/pod/a/cpu.max", "50000 100000");
  const auto outside = tree.quotas();
  REQUIRE(outside.size() == 2);
  CHECK(outside[0].identity != outside[1].identity);
  // The pod's view, in a cgroup namespace.
  tree.groups("0::/");
  fs::rename(tree.root() / "sys/fs/cgroup/pod", tree.root() / "pod");
  tree.mounts("31 23 0:28 / /pod rw - cgroup2 cgroup2 rw");
  const auto within = tree.quotas();
  REQUIRE(within.size() == 1);
  CHECK(within[0].group == "/");
  CHECK(within[0].identity == outside[1].identity);
  CHECK(is_under(outside, within[0]));
  CHECK(!is_under(within, outside[0]));
}

TEST_CASE("a container that has only its own group mounted sees its quota") {
  Tree tree;
  tree.mounts("32 23 0:29 /docker/4f /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu");
  tree.groups("4:cpu:/docker/4f/sub");
  tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000");
  tree.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  const auto quotas = tree.quotas();
  REQUIRE(quotas.size() == 1);
  CHECK(quotas[0].millicores == 2000);
  CHECK(quotas[0].group == "/docker/4f");
  // Another container's mount is irrelevant.
  tree.groups("4:cpu:/docker/4fa");
  CHECK(tree.quotas().empty());
  tree.groups("4:cpu:/");
  CHECK(tree.quotas().empty());
}

TEST_CASE("a mount point with a blank in its name is parsed") {
  Tree tree;
  tree.mounts(R"(32 23 0:29 / /a\040b rw - cgroup2 cgroup2 rw)").groups("0::/x");
  tree.write("a b/x/cpu.max", "1000 1000000");
  REQUIRE(tree.quotas().size() == 1);
  CHECK(tree.quotas()[0].millicores == 1);
}

TEST_CASE("without /proc, or with malformed lines, there is no group") {
  Tree tree;
  CHECK(tree.quotas().empty());
  tree.mounts("no mount\n - \n32 - cgroup2\n - cgroup2 cgroup2 rw\n").groups("x\n:\n::\n0::\n");
  CHECK(tree.quotas().empty());
  tree.mounts(version_2).groups("0::/../outside");
  tree.write("sys/fs/outside/cpu.max", "50000 100000");
  CHECK(tree.quotas().empty());
}

TEST_CASE("cpu.max is parsed") {
  CHECK(millicores_of("50000 100000") == 500U);
  CHECK(millicores_of("300000 100000") == 3000U);
  CHECK(millicores_of("1000 1000000") == 1U);
  CHECK(millicores_of("1 1000000") == 1U);  // at least 1
  CHECK(millicores_of("9000000000000000000 1") == 4294967295U);
  for (const auto* none : {"", "max 100000", "max", "50000", "50000 0", "-1 100000", "0 100000",
                           "x y", "99999999999999999999999 100000"}) {
    INFO(none);
    CHECK(!millicores_of(none));
  }
}

TEST_CASE("a quota is described in cores") {
  CHECK(cores_text(500) == "0.5 cores");
  CHECK(cores_text(1000) == "1 core");
  CHECK(cores_text(2000) == "2 cores");
}

}  // namespace tutti::test
