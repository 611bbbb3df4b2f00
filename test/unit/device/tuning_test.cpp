// The tuning file, and the limits that follow from it.
#include "device/tuning.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "direct/limits.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::device::test {
namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

TuningEntry entry_for(const std::string& card, int ranks, std::uint64_t broadcast = 4 * mib) {
  return {.key = {.card = card, .driver = "13.0", .nccl = "2.28.3", .ranks = ranks},
          .limits = {broadcast, 2 * mib, 512 * kib, 0, 16 * mib},
          .windows = {64 * mib, 0, 32 * mib, 1, 2}};
}

/// A folder of a test's own.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "tutti_tuning_XXXXXX").string()) {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name = "tuning.jsonl") const {
    return path_ + "/" + name;
  }
  void write(const std::string& text) const { std::ofstream(file()) << text; }
  [[nodiscard]] std::size_t files() const {
    const std::filesystem::directory_iterator all(path_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

 private:
  std::string path_;
};

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const auto at = text.find(part);
  INFO(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), by);
}

}  // namespace

TEST_CASE("a tuning file keeps its entries apart by card, driver, NCCL and ranks") {
  const Folder folder;
  const auto file = folder.file("new/folders/tuning.jsonl");
  auto other_driver = entry_for("NVIDIA H200", 2, 1 * kib);
  other_driver.key.driver = "12.8";
  auto other_nccl = entry_for("NVIDIA H200", 2, 2 * kib);
  other_nccl.key.nccl = "2.27.0";
  const std::vector entries{entry_for("NVIDIA H200", 2), entry_for("NVIDIA H200", 4, 8 * kib),
                            entry_for("NVIDIA A100 \"80GB\"", 2, 0), other_driver, other_nccl};
  for (const auto& entry : entries) write_tuning(file, entry);
  const auto tuning = read_tuning(file);
  CHECK(tuning.problem.empty());
  CHECK(tuning.entries == entries);
  for (const auto& entry : entries) {
    REQUIRE(tuning.find(entry.key) != nullptr);
    CHECK(*tuning.find(entry.key) == entry);
  }
  CHECK(tuning.find(entry_for("NVIDIA H100", 2).key) == nullptr);
  CHECK(tuning.find(entry_for("NVIDIA H200", 3).key) == nullptr);
}

TEST_CASE("a later measurement replaces the earlier one of its key, and leaves no other file") {
  const Folder folder;
  write_tuning(folder.file(), entry_for("NVIDIA H200", 2));
  write_tuning(folder.file(), entry_for("NVIDIA H200", 8));
  const auto later = entry_for("NVIDIA H200", 2, 64 * kib);
  write_tuning(folder.file(), later);
  CHECK(read_tuning(folder.file()).entries == std::vector{entry_for("NVIDIA H200", 8), later});
  CHECK(folder.files() == 1);
  struct stat status {};
  REQUIRE(::stat(folder.file().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0644);
}

TEST_CASE("a tuning file that isn't there is no problem") {
  const Folder folder;
  for (const auto* const name : {"none", "none/at/all"}) {
    const auto tuning = read_tuning(folder.file(name));
    CHECK_FALSE(tuning.is_there);
    CHECK(tuning.problem.empty());
  }
  folder.write("");
  CHECK(read_tuning(folder.file()).is_there);
  CHECK(read_tuning(folder.file()).problem.empty());
  CHECK_FALSE(read_tuning(folder.file("tuning.jsonl/below")).is_there);
}

TEST_CASE("of a malformed tuning file nothing is used, and its line is named") {
  const auto good = tuning_text({entry_for("NVIDIA H200", 2)});
  const std::vector<std::string> malformed{
      "not JSON\n",
      "{\n",
      "[]\n",
      "7\n",
      "{}\n",
      good.substr(0, good.size() / 2),  // cut off
      good.substr(0, good.size() - 2) + "\n",
      good.substr(0, good.size() - 1) + " and more\n",
      replaced(good, "\"tutti_tuning\":1", "\"tutti_tuning\":2"),
      replaced(good, "\"tutti_tuning\":1", "\"another\":1"),
      replaced(good, "\"card\":", "\"cards\":"),
      replaced(good, "\"NVIDIA H200\"", "200"),
      replaced(good, "\"driver\":\"13.0\"", "\"driver\":13.0"),
      replaced(good, "\"ranks\":2", "\"ranks\":-2"),
      replaced(good, "\"ranks\":2", "\"ranks\":\"2\""),
      replaced(good, "\"ranks\":2", "\"ranks\":99999999999"),
      replaced(good, "\"all_gather\":0", "\"all_gather\":-1"),
      replaced(good, "\"all_gather\":0", "\"all_gather\":0.5"),
      replaced(good, "\"all_gather\":0", "\"all_gather\":null"),
      replaced(good, "\"all_gather\":0", "\"all_gather\":18446744073709551615"),
      replaced(good, "\"all_gather\":0", "\"gather\":0"),
      replaced(good, "\"all_gather\":1", "\"all_gather\":-1"),
      std::string(1000, '['),
      std::string("\0\xff\n", 3),
  };
  for (const auto& line : malformed) {
    INFO(line);
    CHECK(parse_tuning(line).problem == "line 1 is no entry of `tutti tune`");
    const auto tuning = parse_tuning(good + "\n" + good + line);
    CHECK(tuning.problem == "line 4 is no entry of `tutti tune`");
    CHECK(tuning.entries.empty());
  }
  CHECK(parse_tuning(good + " \r\n\n" + good).entries.size() == 2);
  // As written by earlier versions.
  const auto old = parse_tuning(replaced(good, "windows_up_to_bytes", "another"));
  REQUIRE(old.entries.size() == 1);
  CHECK(old.entries[0].windows == TunedLimits{});
  // More than this version knows is no problem.
  CHECK(parse_tuning(replaced(good, "\"ranks\":2", "\"ranks\":2,\"gather\":3")).entries.size() ==
        1);
}

TEST_CASE("what is no readable file is a problem, and blocks nobody") {
  const Folder folder;
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  std::ofstream(folder.file("huge")) << std::string(2 * mib, '\n');
  for (const auto* const name : {"pipe", "huge", "."}) {
    INFO(name);
    const auto tuning = read_tuning(folder.file(name));
    CHECK(tuning.is_there);
    CHECK(tuning.problem == "it is no file of `tutti tune`");
  }
  CHECK(read_tuning(folder.file(std::string(300, 'x'))).problem.find("it can't be read: ") == 0);
}

TEST_CASE("tune replaces a malformed file, and says what it can't write") {
  const Folder folder;
  folder.write("foreign\n");
  write_tuning(folder.file(), entry_for("NVIDIA H200", 2));
  CHECK(read_tuning(folder.file()).entries == std::vector{entry_for("NVIDIA H200", 2)});
  for (const auto& path : {folder.file("tuning.jsonl/below"), std::string("/proc/no/such")}) {
    INFO(path);
    try {
      write_tuning(path, entry_for("NVIDIA H200", 2));
      FAIL("it was written");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::system);
      CHECK(error.sentence().find(std::filesystem::path(path).parent_path()) != std::string::npos);
    }
  }
  std::filesystem::create_directory(folder.file("folder"));
  CHECK_THROWS_AS(write_tuning(folder.file("folder"), entry_for("NVIDIA H200", 2)), Error);
  CHECK(folder.files() == 2);  // nothing is left of the attempts
}

TEST_CASE("the key names each kind of card once") {
  CudaCalls cuda;
  cuda.driver_version = [](int* version) {
    *version = 12080;
    return cuda_success;
  };
  const auto key = make_tuning_key({"B", "A", "B"}, cuda, 22803);
  CHECK(key == TuningKey{.card = "A + B", .driver = "12.8", .nccl = "2.28.3", .ranks = 3});
  CHECK(key.text() == "3 ranks on A + B, driver for CUDA 12.8, NCCL 2.28.3");
  CHECK(make_tuning_key({"A"}, CudaCalls{}, 0).driver == "0.0");
}

TEST_CASE("measured sizes of calls become limits of what a rank sends") {
  const direct::Measured limits{.direct = entry_for("", 0).limits,
                                .windows = entry_for("", 0).windows};
  using direct::Limits;
  const auto of = [&](Operation operation, int ranks) {
    return direct::measured_limits(operation, limits, ranks);
  };
  CHECK(of(Operation::broadcast, 2) ==
        Limits{.packets = 256 * kib, .chunks = 4 * mib, .windows = 64 * mib});
  CHECK(of(Operation::broadcast, 3) ==
        Limits{.packets = 256 * kib, .chunks = 8 * mib, .windows = 128 * mib});
  CHECK(of(Operation::all_reduce, 2) ==
        Limits{.packets = 256 * kib, .chunks = 512 * kib, .windows = 32 * mib});
  CHECK(of(Operation::all_gather, 2) == Limits{.packets = 0, .chunks = 0, .windows = 1});
  CHECK(of(Operation::barrier, 2) == direct::built_in_limits(Operation::barrier));
  CHECK(of(Operation::gather, 2) == Limits{});
  auto few = limits;
  few.direct[0] = 4 * kib;
  few.windows[0] = 0;
  CHECK(direct::measured_limits(Operation::broadcast, few, 2) ==
        Limits{.packets = 4 * kib, .chunks = 4 * kib});
  const direct::LimitTable built_in;
  for (const auto operation : tuned_operations) {
    CHECK(built_in.of(operation) == direct::built_in_limits(operation));
    CHECK(built_in.of(operation).packets > 0);
  }
}

}  // namespace tutti::device::test
