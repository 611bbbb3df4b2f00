// docs/environment.md lists all variables that the code reads and no others of tutti.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "launch/launcher.hpp"
#include "support/catch.hpp"

namespace tutti::launch::test {

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

Names matches(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  Names names;
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

const fs::path root = TUTTI_SOURCE_ROOT;

std::string sources() {
  std::string text;
  for (const auto* folder : {"lib", "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const auto kind = entry.path().extension();
      if (kind == ".cpp" || kind == ".hpp") text += text_of(entry.path());
    }
  }
  return text;
}

}  // namespace

TEST_CASE("every launcher variable that the code reads is documented") {
  const auto page = text_of(root / "docs" / "environment.md");
  REQUIRE(!page.empty());
  Names names(mpi_traces().begin(), mpi_traces().end());
  for (const auto& launcher : known_launchers()) {
    for (const auto* list : {&launcher.traces, &launcher.rank, &launcher.size, &launcher.local_rank,
                             &launcher.local_size}) {
      names.insert(list->begin(), list->end());
    }
  }
  CHECK(names.size() > 30);
  for (const auto& name : names) {
    INFO(name);
    CHECK(page.find("`" + name + "`") != std::string::npos);
  }
}

TEST_CASE("every other variable in the code is documented") {
  const auto page = text_of(root / "docs" / "environment.md");
  // String literals that are only such a name; each is read somewhere.
  const auto named = matches(sources(),
                             "\"((?:TUTTI|MASTER|TORCHELASTIC|SLURM|OMPI|PMI|PMIX|NCCL_SOCKET|GLOO)"
                             "_[A-Z0-9_]*[A-Z0-9])\"");
  CHECK(named.size() > 30);
  for (const auto& name : named) {
    if (name == "TUTTI_HAS_MPI") continue;  // a macro
    INFO(name);
    CHECK(page.find("`" + name + "`") != std::string::npos);
  }
}

TEST_CASE("every documented variable of tutti is read somewhere") {
  auto code = sources();
  for (const auto& entry : fs::recursive_directory_iterator(root / "scripts")) {
    if (entry.is_regular_file() && entry.path().extension() != ".pyc")
      code += text_of(entry.path());
  }
  const auto described =
      matches(text_of(root / "docs" / "environment.md"), "(TUTTI_[A-Z0-9_]*[A-Z0-9])");
  CHECK(described.size() > 10);
  for (const auto& name : described) {
    INFO(name);
    CHECK(code.find(name) != std::string::npos);
  }
}

}  // namespace tutti::launch::test
