// Remedies use the options of the launcher that started the job.
#include "doctor/advice.hpp"

#include "doctor/checks.hpp"
#include "support/catch.hpp"

namespace tutti::app::doctor::test {
namespace {

/// Two ranks of one host that share a core. One of them lacks a variable.
Findings examined(const std::string& launcher) {
  std::vector<Facts> job(2);
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    auto& facts = job[rank];
    facts.info.host = {.identity = "id-1", .name = "node1"};
    facts.info.pid = static_cast<std::uint32_t>(100 + rank);
    facts.launcher = launcher;
    facts.cpus = {3};
    facts.machine_cpus = 8;
  }
  job[0].settings = {{"NCCL_ALGO", "Ring"}};
  const JobFacts job_facts(job);
  Findings findings;
  check_settings(job_facts, findings);
  check_cores(job_facts, findings);
  return findings;
}

}  // namespace

TEST_CASE("the doctor's remedies are for the launcher that started the job") {
  struct Due {
    std::string launcher, settings, cores;
  };
  for (const auto& due : std::vector<Due>{
           {"", "mpirun -x NCCL_ALGO", "mpirun --bind-to none, or --bind-to core"},
           {"Open MPI", "mpirun -x NCCL_ALGO", "mpirun --bind-to none, or --bind-to core"},
           {"Hydra", "mpirun -genvlist NCCL_ALGO", "mpirun -bind-to none"},
           {"Slurm", "srun --export=ALL,NCCL_ALGO", "srun --cpu-bind=none"},
           {"torchrun", "export NCCL_ALGO on every host", "without binding"},
           {"the environment", "export NCCL_ALGO before", "without binding"}}) {
    const auto findings = examined(due.launcher);
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].check == "settings");
    CHECK(findings[0].remedy.find(due.settings) != std::string::npos);
    CHECK(findings[1].check == "binding");
    CHECK(findings[1].remedy.find(due.cores) != std::string::npos);
    const bool may_name_mpirun = due.settings.find("mpirun") != std::string::npos;
    for (const auto& finding : findings) {
      const auto text = finding.sentence + finding.remedy;
      CHECK((may_name_mpirun || text.find("mpirun") == std::string::npos));
    }
  }
}

TEST_CASE("a suggested value is passed with its variable") {
  CHECK(pass_variable("Open MPI", "A=b") == "mpirun -x A=b");
  CHECK(pass_variable("Hydra", "A=b") == "mpirun -genv A b");
  CHECK(pass_variable("Slurm", "A=b") == "srun --export=ALL,A=b");
}

TEST_CASE("the launcher is detected by its environment variables") {
  CHECK(launcher_in({}).empty());
  CHECK(launcher_in({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}}).empty());
  CHECK(launcher_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"SLURM_PROCID", "0"}}) == "Open MPI");
  CHECK(launcher_in({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}) == "Slurm");
  CHECK(launcher_in({{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}}) ==
        "torchrun");
}

}  // namespace tutti::app::doctor::test
