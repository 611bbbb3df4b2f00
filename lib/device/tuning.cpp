#include "device/tuning.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/descriptor.hpp"
#include "base/system_error.hpp"
#include "base/text_file.hpp"
#include "device/nccl_numbers.hpp"

namespace tutti::device {
namespace {

using nlohmann::json;

constexpr int tuning_schema = 1;
/// Larger files are not ours.
constexpr off_t max_file_bytes = 1 << 20;
/// Larger than any buffer; products with a number of ranks do not overflow.
constexpr std::uint64_t max_limit_bytes = std::uint64_t{1} << 40;
constexpr mode_t readable_by_all = 0644;

std::optional<std::string> word_of(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<std::uint64_t> number_of(const json& line, const char* key, std::uint64_t max) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto value = found->get<std::uint64_t>();
  return value <= max ? std::optional(value) : std::nullopt;
}

std::optional<TunedLimits> limits_of(const json& by_operation) {
  if (!by_operation.is_object()) return std::nullopt;
  TunedLimits limits{};
  for (std::size_t i = 0; i < tuned_operations.size(); ++i) {
    const std::string operation(name(tuned_operations[i]));
    const auto limit = number_of(by_operation, operation.c_str(), max_limit_bytes);
    if (!limit) return std::nullopt;
    limits[i] = *limit;
  }
  return limits;
}

std::optional<TuningEntry> entry_of(const json& line) {
  if (!line.is_object() || number_of(line, "tutti_tuning", tuning_schema) != tuning_schema) {
    return std::nullopt;
  }
  const auto card = word_of(line, "card");
  const auto driver = word_of(line, "driver");
  const auto nccl = word_of(line, "nccl");
  constexpr std::uint64_t most_ranks = 1 << 20;
  const auto ranks = number_of(line, "ranks", most_ranks);
  const auto limits = line.find("direct_up_to_bytes");
  const auto windows = line.find("windows_up_to_bytes");
  if (!card || !driver || !nccl || !ranks || limits == line.end()) return std::nullopt;
  const auto direct = limits_of(*limits);
  const auto in_windows =
      windows == line.end() ? std::optional(TunedLimits{}) : limits_of(*windows);
  if (!direct || !in_windows) return std::nullopt;
  return TuningEntry{
      .key = {.card = *card, .driver = *driver, .nccl = *nccl, .ranks = static_cast<int>(*ranks)},
      .limits = *direct,
      .windows = *in_windows};
}

json by_operation(const TunedLimits& limits) {
  json result = json::object();
  for (std::size_t i = 0; i < tuned_operations.size(); ++i) {
    result[std::string(name(tuned_operations[i]))] = limits[i];
  }
  return result;
}

std::string line_of(const TuningEntry& entry) {
  const json line{{"tutti_tuning", tuning_schema},
                  {"card", entry.key.card},
                  {"driver", entry.key.driver},
                  {"nccl", entry.key.nccl},
                  {"ranks", entry.key.ranks},
                  {"direct_up_to_bytes", by_operation(entry.limits)},
                  {"windows_up_to_bytes", by_operation(entry.windows)}};
  // A name that is not UTF-8 is changed, so its entry is never found.
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

[[noreturn]] void fail_to_write(const std::string& path, int reason) {
  throw system_error(fmt::format("can't write {}", path), reason);
}

void write_all(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const auto put = ::write(file, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_to_write(path, errno);
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

/// A new file beside `path`, which takes its place or is removed.
class Replacement {
 public:
  explicit Replacement(const std::string& path) : path_(path), made_(path + ".XXXXXX") {
    file_ = Descriptor(::mkostemp(made_.data(), O_CLOEXEC));
    if (!file_) fail_to_write(path_, errno);
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() {
    if (!made_.empty()) ::unlink(made_.c_str());
  }
  void put(std::string_view text) {
    write_all(file_.get(), text, path_);
    if (::fchmod(file_.get(), readable_by_all) != 0 || ::fsync(file_.get()) != 0 ||
        std::rename(made_.c_str(), path_.c_str()) != 0) {
      fail_to_write(path_, errno);
    }
    made_.clear();
  }

 private:
  std::string path_;
  std::string made_;
  Descriptor file_;
};

}  // namespace

std::string TuningKey::text() const {
  return fmt::format("{} ranks on {}, driver for CUDA {}, NCCL {}", ranks, card, driver, nccl);
}

TuningKey make_tuning_key(const std::vector<std::string>& cards, const CudaCalls& cuda,
                          int nccl_version) {
  const std::set<std::string> different(cards.begin(), cards.end());
  int version = 0;
  if (cuda.driver_version != nullptr) cuda.driver_version(&version);
  return {.card = fmt::format("{}", fmt::join(different, " + ")),
          .driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10),
          .nccl = nccl_version_text(nccl_version),
          .ranks = static_cast<int>(cards.size())};
}

const TuningEntry* Tuning::find(const TuningKey& key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const TuningEntry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

Tuning parse_tuning(std::string_view text) {
  Tuning tuning{.entries = {}, .problem = {}, .is_there = true};
  for (int number = 1; !text.empty(); ++number) {
    const auto line = take_line(text);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto entry = entry_of(json::parse(line, nullptr, false));
    if (!entry) {
      tuning.entries.clear();
      tuning.problem = fmt::format("line {} is no entry of `tutti tune`", number);
      return tuning;
    }
    tuning.entries.push_back(*entry);
  }
  return tuning;
}

std::string tuning_text(const std::vector<TuningEntry>& entries) {
  std::string text;
  for (const auto& entry : entries) text += line_of(entry);
  return text;
}

Tuning read_tuning(const std::string& path) {
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  if (!is_there && (errno == ENOENT || errno == ENOTDIR)) return {};
  if (is_there && (!S_ISREG(status.st_mode) || status.st_size > max_file_bytes)) {
    // A pipe would block set-up.
    return {.problem = "it is no file of `tutti tune`", .is_there = true};
  }
  const auto text = is_there ? read_text_file(path.c_str()) : std::nullopt;
  if (!text) return {.problem = "it can't be read: " + errno_text(errno), .is_there = true};
  return parse_tuning(*text);
}

void write_tuning(const std::string& path, const TuningEntry& entry) {
  auto entries = read_tuning(path).entries;
  std::erase_if(entries, [&](const TuningEntry& old) { return old.key == entry.key; });
  entries.push_back(entry);
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw system_error(fmt::format("can't make the folder {}", folder.string()), failed.value());
  }
  Replacement(path).put(tuning_text(entries));
}

}  // namespace tutti::device
