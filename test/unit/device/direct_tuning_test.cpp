// Ranks with different tuning files: rank 0's counts for all.
#include <fstream>

#include "device/tuning.hpp"
#include "direct/image.hpp"
#include "fake_ranks.hpp"
#include "gpu/cases.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

using gpu_test::DeviceBuffer;

constexpr std::uint64_t kib = 1024;
const Variables with_ipc{{"FAKE_GPU_IPC", "1"}, {"FAKE_GPU_DEVICES", "4"}};

/// A file of each rank's own, which the rank removes.
class TuningFile {
 public:
  explicit TuningFile(const Rank& rank)
      : path_("/tmp/tutti_tuning_" + std::to_string(::getppid()) + "_" +
              std::to_string(rank.rank())) {
    ::unlink(path_.c_str());
    set("TUTTI_TUNING", path_);
  }
  TuningFile(const TuningFile&) = delete;
  TuningFile& operator=(const TuningFile&) = delete;
  ~TuningFile() { ::unlink(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Up to `bytes` for all operations, measured on the fakes with that many ranks.
  void add(int ranks, std::uint64_t bytes, const std::string& card = "Fake GPU") const {
    TuningEntry entry{.key = {.card = card, .driver = "13.0", .nccl = "2.28.9", .ranks = ranks}};
    entry.limits.fill(bytes);
    write_tuning(path_, entry);
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }

 private:
  std::string path_;
};

/// "direct direct nccl": what takes a broadcast of each of these sizes.
std::string paths_of(Communicator& communicator, const std::vector<std::size_t>& sizes) {
  DeviceMemory memory(communicator.device());
  const Stream stream(memory.stream());
  DeviceBuffer buffer(memory, std::size_t{6} << 20);
  std::string paths;
  for (const auto bytes : sizes) {
    const device_span data(reinterpret_cast<std::int32_t*>(buffer.data()), bytes / 4);
    communicator.broadcast(data, 0, {.stream = stream});
    paths += (paths.empty() ? "" : " ") + communicator.latest_algorithm();
    communicator.synchronize(stream);
  }
  return paths;
}

/// What each rank's calls took, and its warnings behind that.
std::vector<std::string> paths_with(int ranks, const Variables& variables,
                                    const std::function<void(Rank&, TuningFile&)>& prepare) {
  const auto reports = run_on_devices(ranks, variables, [&](Rank& rank) {
    TuningFile file(rank);
    prepare(rank, file);
    std::string warnings;
    const Options options{.timeout = 20s,
                          .backend = BackendChoice::nccl,
                          .log = [&](LogLevel level, const std::string& text) {
                            if (level == LogLevel::warning) warnings += " " + text;
                          }};
    auto& communicator = rank.communicator(options);
    auto paths = paths_of(communicator, {512, 4 * kib, 64 * kib, 6144 * kib});
    communicator.finalize();
    const auto at = warnings.find(file.path());
    if (at != std::string::npos) warnings.replace(at, file.path().size(), "FILE");
    return paths + warnings;
  });
  CHECK(errors_of(reports) == "");
  std::vector<std::string> texts;
  for (const auto& report : reports) texts.push_back(report.text);
  return texts;
}

const std::string built_in = "direct direct direct nccl";

bool is_without_kernels() {
  return direct::kernel_image() == nullptr;
}

}  // namespace

TEST_CASE("ranks that read different tuning files decide as rank 0 does") {
  if (is_without_kernels()) return;
  const int ranks = GENERATE(2, 3);
  const auto paths = paths_with(ranks, with_ipc, [&](Rank& rank, TuningFile& file) {
    if (rank.rank() == 0) file.add(ranks, 4 * kib);
    if (rank.rank() == 1) file.add(ranks, 8192 * kib);
    if (rank.rank() == 2) file.write("malformed");  // nobody reads it
  });
  for (const auto& of_rank : paths) CHECK(of_rank == "direct direct nccl nccl");
}

TEST_CASE("a measured limit may be 0, or above the built-in one") {
  if (is_without_kernels()) return;
  const auto never = paths_with(2, with_ipc, [](Rank&, TuningFile& file) { file.add(2, 0); });
  for (const auto& of_rank : never) CHECK(of_rank == "nccl nccl nccl nccl");
  const auto large =
      paths_with(2, with_ipc, [](Rank&, TuningFile& file) { file.add(2, 8192 * kib); });
  for (const auto& of_rank : large) CHECK(of_rank == "direct direct direct direct");
}

TEST_CASE("figures of another card, of other numbers of ranks and a missing file change nothing") {
  if (is_without_kernels()) return;
  const auto others = paths_with(2, with_ipc, [](Rank&, TuningFile& file) {
    file.add(2, 0, "Another GPU");
    file.add(3, 0);
  });
  for (const auto& of_rank : others) CHECK(of_rank == built_in);
  const auto missing = paths_with(2, with_ipc, [](Rank&, TuningFile&) {});
  for (const auto& of_rank : missing) CHECK(of_rank == built_in);
}

TEST_CASE("a malformed tuning file costs one warning, and the job goes on") {
  if (is_without_kernels()) return;
  const auto paths = paths_with(2, with_ipc, [](Rank&, TuningFile& file) {
    file.add(2, 0);
    std::ofstream(file.path(), std::ios::app) << "rubbish\n";
  });
  CHECK(paths[0] == built_in +
                        " FILE: line 2 is no entry of `tutti tune`; the limits between the direct "
                        "path and NCCL are the built-in ones: run `tutti tune` again, or delete "
                        "the file");
  CHECK(paths[1] == built_in);
}

TEST_CASE("TUTTI_TUNING=off, and a chosen path, leave the file alone") {
  if (is_without_kernels()) return;
  const auto off = paths_with(2, with_ipc, [](Rank&, TuningFile& file) {
    file.add(2, 0);
    set("TUTTI_TUNING", "off");
  });
  for (const auto& of_rank : off) CHECK(of_rank == built_in);
  auto chosen = with_ipc;
  chosen["TUTTI_DEVICE_PATH"] = "direct";
  const auto direct =
      paths_with(2, chosen, [](Rank&, TuningFile& file) { file.write("malformed"); });
  for (const auto& of_rank : direct) CHECK(of_rank == "direct direct direct direct");
}

TEST_CASE("a part of a communicator has the limits of its number of ranks, and warns no more") {
  if (is_without_kernels()) return;
  const bool malformed = GENERATE(false, true);
  const auto reports = run_on_devices(4, with_ipc, [&](Rank& rank) -> std::string {
    const TuningFile file(rank);
    file.add(4, 4 * kib);
    file.add(2, 64 * kib);
    if (malformed) file.write("malformed");
    int warnings = 0;
    const Options options{.timeout = 20s,
                          .backend = BackendChoice::nccl,
                          .log = [&](LogLevel level, const std::string& text) {
                            warnings += level == LogLevel::warning &&
                                        text.find(file.path()) != std::string::npos;
                          }};
    auto& whole = rank.communicator(options);
    const std::vector<std::size_t> sizes{4 * kib, 64 * kib, 128 * kib};
    auto part = whole.split(rank.rank() / 2);
    const auto paths = paths_of(whole, sizes) + ", " + paths_of(*part, sizes);
    expect(paths == (malformed ? "direct direct direct, direct direct direct"
                               : "direct nccl nccl, direct direct nccl"),
           paths);
    expect(warnings == (malformed && rank.rank() == 0 ? 1 : 0), std::to_string(warnings));
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::device::test
