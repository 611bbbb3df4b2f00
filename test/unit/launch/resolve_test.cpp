// Rank and size from the environment of each launcher.
#include "launch/resolve.hpp"

#include "launch/place.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::launch::test {

namespace {

using Map = EnvironmentMap;

InitChoice env_url(bool is_explicit = false) {
  return {
      .init = Init::store, .url = "env://", .is_explicit = is_explicit, .source = "--init=env://"};
}

Resolved resolved(const Map& map, const Words& words = {}) {
  return resolve(map, words, env_url());
}

template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    return error.sentence();
  }
  return "no error";
}

std::string resolve_error(const Map& map, const Words& words = {}) {
  return refusal([&] { (void)resolve(map, words, choose_init(map, words)); });
}

std::string world_error(const Map& map, int rank, int size, const Words& words = {}) {
  return refusal([&] {
    (void)require_agreement(map, words, {.rank = rank, .size = size, .mpi = "Some MPI 1.0"});
  });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The relevant variables of each launcher, for rank 5 of 8, local rank 1 of 4.
struct Row {
  std::string launcher;
  Map map;
  Init init;
};

const std::vector<Row>& launchers() {
  static const std::vector<Row> rows{
      {"torchrun",
       {{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"GROUP_RANK", "1"},
        {"GROUP_WORLD_SIZE", "2"},
        {"ROLE_RANK", "5"},
        {"ROLE_WORLD_SIZE", "8"},
        {"ROLE_NAME", "default"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", "29500"},
        {"TORCHELASTIC_RUN_ID", "none"},
        {"TORCHELASTIC_RESTART_COUNT", "0"},
        {"TORCHELASTIC_MAX_RESTARTS", "0"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
       Init::store},
      {"the environment",
       {{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", "29500"}},
       Init::store},
      {"Open MPI",  // 4
       {{"OMPI_COMM_WORLD_RANK", "5"},
        {"OMPI_COMM_WORLD_SIZE", "8"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
        {"OMPI_COMM_WORLD_NODE_RANK", "1"},
        {"OMPI_UNIVERSE_SIZE", "8"},
        {"PMIX_ID", "730923009.5"},
        {"PMIX_RANK", "5"},
        {"PMIX_NAMESPACE", "730923009"}},
       Init::mpi},
      {"Open MPI",  // 5
       {{"OMPI_COMM_WORLD_RANK", "5"},
        {"OMPI_COMM_WORLD_SIZE", "8"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
        {"OMPI_COMM_WORLD_NODE_RANK", "1"},
        {"PRTE_LAUNCHED", "1"},
        {"PMIX_RANK", "5"},
        {"PMIX_NAMESPACE", "prterun-node1-18472@1"}},
       Init::mpi},
      {"Hydra",  // MPICH
       {{"PMI_RANK", "5"},
        {"PMI_SIZE", "8"},
        {"PMI_FD", "11"},
        {"PMI_HOSTNAME", "node2"},
        {"MPI_LOCALRANKID", "1"},
        {"MPI_LOCALNRANKS", "4"},
        {"HYDI_CONTROL_FD", "7"}},
       Init::mpi},
      {"Hydra",  // Intel MPI
       {{"PMI_RANK", "5"},
        {"PMI_SIZE", "8"},
        {"PMI_FD", "11"},
        {"MPI_LOCALRANKID", "1"},
        {"MPI_LOCALNRANKS", "4"},
        {"I_MPI_INFO_NP", "1"},
        {"HYDRA_LAUNCH_TYPE", "2"}},
       Init::mpi},
      {"MVAPICH",
       {{"MV2_COMM_WORLD_RANK", "5"},
        {"MV2_COMM_WORLD_SIZE", "8"},
        {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
        {"MV2_COMM_WORLD_LOCAL_SIZE", "4"}},
       Init::mpi},
      {"jsrun",
       {{"JSM_NAMESPACE_RANK", "5"},
        {"JSM_NAMESPACE_SIZE", "8"},
        {"JSM_NAMESPACE_LOCAL_RANK", "1"},
        {"JSM_NAMESPACE_LOCAL_SIZE", "4"},
        {"PMIX_RANK", "5"}},
       Init::mpi},
      {"PALS",
       {{"PALS_RANKID", "5"},
        {"PALS_LOCAL_RANKID", "1"},
        {"PALS_NODEID", "1"},
        {"PMI_RANK", "5"},
        {"PMI_SIZE", "8"},
        {"PMI_LOCAL_RANK", "1"},
        {"PMI_LOCAL_SIZE", "4"}},
       Init::mpi},
      {"PMI",
       {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "4"}},
       Init::mpi},
      {"Flux",
       {{"FLUX_TASK_RANK", "5"},
        {"FLUX_JOB_SIZE", "8"},
        {"FLUX_TASK_LOCAL_ID", "1"},
        {"FLUX_JOB_NNODES", "2"},
        {"PMI_RANK", "5"},
        {"PMI_SIZE", "8"},
        {"PMI_FD", "9"}},
       Init::mpi},
      {"Slurm",  // srun --mpi=pmix
       {{"SLURM_PROCID", "5"},
        {"SLURM_STEP_NUM_TASKS", "8"},
        {"SLURM_NTASKS", "8"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_JOB_ID", "7"},
        {"PMIX_RANK", "5"},
        {"PMIX_NAMESPACE", "slurm.pmix.7.0"}},
       Init::mpi},
      {"Slurm",  // srun --mpi=none, with MASTER_ADDR
       {{"SLURM_PROCID", "5"},
        {"SLURM_NTASKS", "8"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_JOB_ID", "7"},
        {"SLURM_STEP_ID", "0"},
        {"MASTER_ADDR", "node1"},
        {"MASTER_PORT", "29500"}},
       Init::store},
  };
  return rows;
}

}  // namespace

TEST_CASE("rank, size and local rank are read from each launcher's environment") {
  for (const auto& row : launchers()) {
    INFO(row.launcher);
    const auto result = resolved(row.map);
    CHECK(result.rank == 5);
    CHECK(result.size == 8);
    CHECK(result.local_rank == 1);
    REQUIRE(result.chosen);
    CHECK(result.chosen->launcher == row.launcher);
    CHECK(choose_init(row.map, {}).init == row.init);
    CHECK(read_launcher(row.map).local_rank == 1);
    CHECK(claimed_rank(row.map, {}) == 5);
    // MPI agrees.
    CHECK(require_agreement(row.map, {}, {.rank = 5, .size = 8, .mpi = "MPI"}).chosen);
    CHECK(has(world_error(row.map, 5, 1), "=8, but MPI (Some MPI 1.0) has 1 rank"));
    CHECK(has(world_error(row.map, 4, 8),
              "=5, but MPI (Some MPI 1.0) has this process as rank 4 of 8"));
  }
}

TEST_CASE("without a launcher there is one process, rank 0 of 1") {
  const Map map{{"PATH", "/bin"}};
  const auto result = resolved(map);
  CHECK(result.rank == 0);
  CHECK(result.size == 1);
  CHECK(!result.chosen);
  CHECK(result.text() == "no launcher");
  CHECK(choose_init(map, {}).init == Init::alone);
  CHECK(!claimed_rank(map, {}));
}

TEST_CASE("PMIx alone gives a rank but no size") {
  const Map map{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}};
  CHECK(choose_init(map, {}).init == Init::mpi);
  CHECK(has(refusal([&] { (void)resolved(map); }),
            "PMIX_RANK=1 is set, but the number of ranks is not"));
  CHECK(require_agreement(map, {}, {.rank = 1, .size = 2, .mpi = "MPI"}).chosen);
  CHECK(has(world_error(map, 0, 2), "PMIX_RANK=1"));
}

TEST_CASE("torchrun's variables take precedence over Slurm's, which are reported as shadowed") {
  const Map map{{"RANK", "3"},         {"WORLD_SIZE", "4"},   {"LOCAL_RANK", "1"},
                {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"MASTER_ADDR", "a"}};
  const auto result = resolved(map);
  CHECK(result.rank == 3);
  CHECK(result.size == 4);
  CHECK(result.text() ==
        "the environment (RANK=3 WORLD_SIZE=4 LOCAL_RANK=1), overrides Slurm (SLURM_PROCID=0 "
        "SLURM_NTASKS=1)");
}

TEST_CASE("tutti's settings and options take precedence") {
  Map map = launchers().front().map;
  map["TUTTI_RANK"] = "1";
  map["TUTTI_SIZE"] = "2";
  CHECK(resolved(map).text() ==
        "tutti's own settings (TUTTI_RANK=1 TUTTI_SIZE=2), overrides torchrun (RANK=5 WORLD_SIZE=8 "
        "LOCAL_RANK=1 LOCAL_WORLD_SIZE=4)");
  const auto result = resolved(map, {.rank = "2", .size = "3"});
  CHECK(result.rank == 2);
  CHECK(result.size == 3);
  CHECK(has(result.text(), "options (--rank=2 --ranks=3)"));
  CHECK(has(resolve_error({}, {.rank = "2"}), "--rank=2 is set, but TUTTI_SIZE (--ranks) is not"));
  CHECK(has(resolve_error({{"TUTTI_SIZE", "2"}}), "TUTTI_SIZE=2 is set, but TUTTI_RANK"));
}

TEST_CASE("invalid values are errors with the variable and its value") {
  const auto with = [](const Map& changes) {
    Map map{{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}};
    for (const auto& [name, value] : changes) map[name] = value;
    return resolve_error(map);
  };
  CHECK(has(with({{"RANK", "abc"}}), "RANK=abc is not a valid rank"));
  CHECK(has(with({{"RANK", "-1"}}), "RANK=-1"));
  CHECK(has(with({{"RANK", "1.0"}}), "RANK=1.0"));
  CHECK(has(with({{"RANK", " 1"}}), "RANK= 1"));
  CHECK(has(with({{"RANK", "99999999999"}}), "RANK=99999999999"));
  CHECK(has(with({{"RANK", "4"}}), "RANK=4 is out of range with WORLD_SIZE=4: ranks are 0 to 3"));
  CHECK(has(with({{"WORLD_SIZE", "0"}}), "WORLD_SIZE=0"));
  CHECK(has(with({{"WORLD_SIZE", "x"}}), "WORLD_SIZE=x"));
  CHECK(has(with({{"LOCAL_RANK", "x"}}), "LOCAL_RANK=x"));
  CHECK(has(with({{"LOCAL_RANK", ""}}), "RANK=3 is set, but LOCAL_RANK is not"));
  CHECK(has(with({{"RANK", ""}}), "WORLD_SIZE=4 is set, but RANK is not"));
  CHECK(has(with({{"WORLD_SIZE", ""}}), "RANK=3 is set, but WORLD_SIZE is not"));
  CHECK(has(with({{"LOCAL_WORLD_SIZE", "1"}}),
            "LOCAL_RANK=1 is out of range with LOCAL_WORLD_SIZE=1"));
  CHECK(has(with({{"LOCAL_WORLD_SIZE", "5"}}), "LOCAL_WORLD_SIZE=5, but WORLD_SIZE=4"));
  CHECK(with({}) == "no error");
}

TEST_CASE("--local-rank is ignored if it agrees, and used if LOCAL_RANK is missing") {
  const Map map{{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}};
  CHECK(resolved(map, {.local_rank = "1"}).local_rank == 1);
  CHECK(has(resolve_error(map, {.local_rank = "0"}), "LOCAL_RANK=1, but --local-rank=0"));
  const Map without{{"RANK", "3"}, {"WORLD_SIZE", "4"}};
  CHECK(resolved(without, {.local_rank = "1"}).local_rank == 1);
  CHECK(has(resolve_error(without, {.local_rank = "x"}), "--local-rank=x"));
}

TEST_CASE("WORLD_SIZE set by hand must not contradict the MPI launcher") {
  Map map = launchers()[2].map;
  map["WORLD_SIZE"] = "1";
  CHECK(choose_init(map, {}).init == Init::mpi);
  const auto sentence = world_error(map, 5, 8);
  CHECK(has(sentence, "WORLD_SIZE=1, but MPI (Some MPI 1.0) has 8 ranks"));
  // Without MPI too, unless requested explicitly.
  CHECK(has(resolve_error(map), "WORLD_SIZE=1, but Open MPI sets OMPI_COMM_WORLD_SIZE=8"));
  map["RANK"] = "0";
  map["LOCAL_RANK"] = "0";
  CHECK(resolve(map, {}, env_url(true)).size == 1);
  map["WORLD_SIZE"] = "8";
  map["RANK"] = "5";
  CHECK(world_error(map, 5, 8) == "no error");
  map["RANK"] = "abc";
  CHECK(has(world_error(map, 5, 8), "RANK=abc"));
}

TEST_CASE("torchrun within mpirun is torchrun's job") {
  Map map = launchers()[2].map;
  for (const auto& [name, value] : launchers().front().map) map[name] = value;
  map["OMPI_COMM_WORLD_SIZE"] = "2";
  map["OMPI_COMM_WORLD_RANK"] = "1";
  CHECK(choose_init(map, {}).init == Init::store);
  CHECK(resolved(map).chosen->launcher == "torchrun");
  // One rank per host: all numbers are equal.
  map["WORLD_SIZE"] = "2";
  map["RANK"] = "1";
  map["LOCAL_RANK"] = "0";
  map["LOCAL_WORLD_SIZE"] = "1";
  CHECK(choose_init(map, {}).init == Init::store);
  // A cluster's launcher, whose numbers may differ from torchrun's.
  for (const Map& launcher :
       {Map{{"SLURM_JOB_ID", "7"}, {"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}},
        Map{{"SLURM_JOB_ID", "7"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", "7.0"}},
        Map{{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "2"}}}) {
    Map job = launchers().front().map;
    job.insert(launcher.begin(), launcher.end());
    CHECK(choose_init(job, {}).init == Init::store);
  }
}

TEST_CASE("mpirun within torchrun is ambiguous and needs an explicit choice") {
  // "torchrun --nproc_per_node 2" with "mpirun -np 2" in each: all four processes.
  for (const std::string torch_rank : {"0", "1"}) {
    for (const std::string mpi_rank : {"0", "1"}) {
      Map map = launchers().front().map;
      map["RANK"] = map["LOCAL_RANK"] = torch_rank;
      map["WORLD_SIZE"] = map["LOCAL_WORLD_SIZE"] = "2";
      map["GROUP_RANK"] = "0";
      map["GROUP_WORLD_SIZE"] = "1";
      map["OMPI_COMM_WORLD_RANK"] = map["OMPI_COMM_WORLD_LOCAL_RANK"] = mpi_rank;
      map["OMPI_COMM_WORLD_SIZE"] = "2";
      map["PMIX_NAMESPACE"] = "730923009";
      const auto sentence = resolve_error(map);
      INFO(sentence);
      CHECK(has(sentence, "RANK=" + torch_rank + " WORLD_SIZE=2"));
      CHECK(has(sentence, "OMPI_COMM_WORLD_RANK=" + mpi_rank + " OMPI_COMM_WORLD_SIZE=2"));
      CHECK(has(sentence, "--init mpi (TUTTI_INIT=mpi)"));
      CHECK(has(sentence, "--init env:// (TUTTI_INIT=env://)"));
      CHECK(refusal([&] { (void)resolved(map); }) == sentence);
      CHECK((claimed_rank(map, {}) == 0) == (torch_rank == "0" && mpi_rank == "0"));
      // An explicit choice counts.
      CHECK(resolve(map, {}, env_url(true)).chosen->launcher == "torchrun");
      map["TUTTI_INIT"] = "mpi";
      const int rank = mpi_rank == "0" ? 0 : 1;
      CHECK(choose_init(map, {}).init == Init::mpi);
      CHECK(world_error(map, rank, 2) == "no error");
      CHECK(claimed_rank(map, {}) == rank);
      if (torch_rank == mpi_rank) continue;
      // A program that uses MPI without an explicit choice.
      map.erase("TUTTI_INIT");
      CHECK(has(world_error(map, rank, 2), "RANK=" + torch_rank + ", but MPI"));
      CHECK(has(world_error(map, rank, 2), "TUTTI_INIT=mpi"));
    }
  }
  // Any mpirun with one rank looks like the launcher of torchrun; with Hydra the two cases are
  // indistinguishable.
  Map map{{"TORCHELASTIC_RUN_ID", "x"},
          {"RANK", "1"},
          {"WORLD_SIZE", "2"},
          {"LOCAL_RANK", "1"},
          {"GROUP_RANK", "0"},
          {"GROUP_WORLD_SIZE", "1"},
          {"PMI_RANK", "0"},
          {"PMI_SIZE", "1"},
          {"MPI_LOCALRANKID", "0"}};
  CHECK(has(resolve_error(map), "Hydra (PMI_RANK=0 PMI_SIZE=1"));
  // Leftovers of a torchrun without host numbers.
  CHECK(has(resolve_error({{"TORCHELASTIC_RUN_ID", "x"},
                           {"RANK", "0"},
                           {"WORLD_SIZE", "2"},
                           {"LOCAL_RANK", "0"},
                           {"PMI_RANK", "0"},
                           {"PMI_SIZE", "2"}}),
            "PMI_RANK=0"));
}

TEST_CASE("the body of a batch script is not a task of srun") {
  for (const Map& place : {Map{}, Map{{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}}}) {
    Map map{{"SLURM_JOB_ID", "7"},
            {"SLURM_NTASKS", "4"},
            {"SLURM_PROCID", "0"},
            {"SLURM_LOCALID", "0"}};
    map.insert(place.begin(), place.end());
    for (const auto& init : {"", "env://"}) {
      const auto sentence = resolve_error(map, {.init = init});
      INFO(sentence);
      CHECK(
          has(sentence,
              "SLURM_NTASKS=4, but srun has not started this process (SLURM_STEP_ID is not set)"));
      CHECK(has(sentence, "start it by srun"));
    }
    CHECK(has(world_error(map, 0, 1), "srun has not started this process"));
    map["SLURM_NTASKS"] = "1";
    CHECK(choose_init(map, {}).init == Init::alone);
    map.erase("SLURM_PROCID");
    map["SLURM_NTASKS"] = "4";
    CHECK(choose_init(map, {}).init == Init::alone);
  }
}

TEST_CASE("srun without PMI: MPI alone in each task is an error with both sizes") {
  const Map map{
      {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}};
  CHECK(has(refusal([&] { (void)choose_init(map, {}); }),
            "SLURM_NTASKS=4, but MPI would find 1 rank"));
  const auto sentence = world_error(map, 0, 1);
  CHECK(has(sentence, "SLURM_NTASKS=4, but MPI (Some MPI 1.0) has 1 rank"));
  CHECK(has(sentence, "srun --mpi=pmix"));
  CHECK(has(world_error({{"SLURM_NTASKS", "4"}}, 0, 1), "SLURM_NTASKS=4, but MPI"));
  // A step of one task, such as a batch script.
  const Map batch{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  CHECK(choose_init(batch, {}).init == Init::alone);
}

TEST_CASE("srun with a PMI that this MPI does not support is an error on rank 0 too") {
  const Map pmix{{"SLURM_PROCID", "0"},
                 {"SLURM_STEP_NUM_TASKS", "4"},
                 {"SLURM_JOB_ID", "7"},
                 {"PMIX_RANK", "0"},
                 {"PMIX_NAMESPACE", "slurm.pmix.7.0"}};
  CHECK(has(world_error(pmix, 0, 1), "SLURM_STEP_NUM_TASKS=4, but MPI"));
  const Map pmi2{{"SLURM_PROCID", "0"},
                 {"SLURM_STEP_NUM_TASKS", "4"},
                 {"SLURM_JOB_ID", "7"},
                 {"PMI_RANK", "0"},
                 {"PMI_JOBID", "7.0"}};
  CHECK(has(world_error(pmi2, 0, 1), "SLURM_STEP_NUM_TASKS=4, but MPI"));
}

TEST_CASE("mpirun within a job of Slurm may start any number of ranks") {
  Map map = launchers()[2].map;
  map["SLURM_PROCID"] = "0";
  map["SLURM_NTASKS"] = "2";
  map["SLURM_JOB_ID"] = "7";
  const auto result = require_agreement(map, {}, {.rank = 5, .size = 8, .mpi = "MPI"});
  CHECK(result.shadow_text() == ", overrides Slurm (SLURM_PROCID=0 SLURM_NTASKS=2)");
  // A leftover of such a job is reported.
  map.erase("SLURM_JOB_ID");
  CHECK(has(world_error(map, 5, 8), "SLURM_NTASKS=2, but MPI"));
}

TEST_CASE("the bootstrap can be chosen") {
  CHECK(choose_init({}, {.init = "mpi"}).init == Init::mpi);
  CHECK(choose_init({}, {.init = "env://"}).init == Init::store);
  CHECK(choose_init({}, {.init = "tcp://a:1"}).url == "tcp://a:1");
  CHECK(choose_init({{"TUTTI_INIT", "env://"}}, {}).init == Init::store);
  CHECK(choose_init({{"TUTTI_INIT", "env://"}}, {.init = "mpi"}).init == Init::mpi);
  CHECK(has(refusal([] {
              (void)choose_init({{"TUTTI_INIT", "udp://a"}}, {});
            }),
            "TUTTI_INIT=udp://a is unknown"));
}

TEST_CASE("flags are 0 or 1") {
  CHECK(!flag({}, "TUTTI_INSECURE"));
  CHECK(!flag({{"TUTTI_INSECURE", "0"}}, "TUTTI_INSECURE"));
  CHECK(flag({{"TUTTI_INSECURE", "1"}}, "TUTTI_INSECURE"));
  CHECK(has(refusal([] {
              (void)flag({{"TUTTI_INSECURE", "yes"}}, "TUTTI_INSECURE");
            }),
            "TUTTI_INSECURE=yes"));
}

TEST_CASE("a host with more ranks than the job, whose size only MPI gives") {
  const Map map{{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "9"}};
  CHECK(world_error(map, 1, 4, {.local_rank = "0"}) ==
        "OMPI_COMM_WORLD_LOCAL_SIZE=9, but the job has 4: a host can't have more ranks than the "
        "job");
}

}  // namespace tutti::launch::test
