#include <fmt/format.h>

#include <fstream>

#include "job_session.hpp"
#include "output.hpp"
#include "plan/plan.hpp"
#include "tutti/error.hpp"

namespace tutti::app::plan {
namespace {

void write(const char* option, const std::string& path, const std::string& text) {
  if (path == "-") {
    print(text);
    return;
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file)
    throw Error(ErrorCode::usage,
                fmt::format("{} {} can't be written: check that its folder exists and is writable",
                            option, path));
}

}  // namespace

int run(const PlanOptions& options) {
  // Under a launcher every rank runs this. Only rank 0 prints.
  if (launched_rank() != 0) return 0;
  const Plan made = make(options);
  if (!options.json.empty()) write("--json", options.json, json_text(made));
  if (!options.write_model.empty())
    write("--write-model", options.write_model, algorithm::text_of(made.costs) + "\n");
  if (options.json != "-") print(text_of(made));
  return 0;
}

}  // namespace tutti::app::plan
