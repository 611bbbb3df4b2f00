"""Variables that scripts/bench and scripts/bench-cluster remove for a baseline, because they slow it down.

A baseline runs with default settings, or with the settings of its configuration (scripts/bench --list). A machine image or a shell profile may
set one of these variables, for example to turn off Open MPI's single copy. That would make the baseline slower. Variables that select networks
and launchers (OMPI_MCA_btl_tcp_if_include, UCX_NET_DEVICES, NCCL_SOCKET_IFNAME) are kept.
"""
import fnmatch

# By the name in tutti bench --vs. All MPIs share one list, since each ignores the others' variables.
MPI = (
    # Open MPI: transports, their thresholds, algorithms, and waiting.
    "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_smsc", "OMPI_MCA_osc",
    "OMPI_MCA_btl_vader_*", "OMPI_MCA_btl_sm_*", "OMPI_MCA_smsc_*", "OMPI_MCA_btl_tcp_*_limit", "OMPI_MCA_btl_tcp_sndbuf",
    "OMPI_MCA_btl_tcp_rcvbuf", "OMPI_MCA_pml_*", "OMPI_MCA_coll", "OMPI_MCA_coll_*", "OMPI_MCA_mpi_yield_when_idle",
    "OMPI_MCA_mpi_param_check", "OMPI_MCA_mpi_leave_pinned*", "OMPI_MCA_opal_progress_*", "OMPI_MCA_*_verbose",
    # MPICH and Intel MPI.
    "MPIR_CVAR_NOLOCAL", "MPIR_CVAR_ODD_EVEN_CLIQUES", "MPIR_CVAR_*_ALGORITHM", "MPIR_CVAR_*_TUNING_*", "MPIR_CVAR_*_THRESHOLD",
    "MPIR_CVAR_*_EAGER_*", "MPIR_CVAR_*_MSG_SIZE", "MPIR_CVAR_ENABLE_*COLL*", "MPIR_CVAR_CH4_SHM_*", "MPIR_CVAR_CH4_XPMEM_*",
    "MPIR_CVAR_CH4_CMA_*", "MPIR_CVAR_POLLS_BEFORE_YIELD", "MPIR_CVAR_ERROR_CHECKING", "MPICH_NO_LOCAL", "MPICH_NOLOCAL",
    "MPICH_ODD_EVEN_CLIQUES", "I_MPI_FABRICS", "I_MPI_SHM*", "I_MPI_ADJUST_*", "I_MPI_*_THRESHOLD", "I_MPI_WAIT_MODE",
    "I_MPI_THREAD_YIELD", "I_MPI_DEBUG",
    # UCX, which all of them may use.
    "UCX_TLS", "UCX_RNDV_*", "UCX_ZCOPY_*", "UCX_BCOPY_*", "UCX_*_SEG_SIZE", "UCX_LOG_LEVEL", "UCX_PROTO_*", "UCX_CMA_*", "UCX_POSIX_*",
    "UCX_SYSV_*", "UCX_MM_*",
)
NCCL = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_*", "NCCL_SHM_*", "NCCL_NTHREADS", "NCCL_BUFFSIZE", "NCCL_*CHANNELS*", "NCCL_*_CTAS",
        "NCCL_CHECKS_DISABLE", "NCCL_CHECK_POINTERS", "NCCL_DEBUG*", "NCCL_LL_*", "NCCL_LL128_*", "NCCL_*_THRESHOLD", "NCCL_NET_GDR_*",
        "NCCL_IB_DISABLE", "NCCL_GRAPH_*", "NCCL_TOPO_*")
PATTERNS = {"mpi": MPI, "nccl": NCCL, "nccl-serial": NCCL, "nccl-windows": NCCL}


def without(environment, baselines):
    """Returns the environment without variables that slow one of these baselines down, and the removed variables."""
    patterns = [pattern for baseline in baselines for pattern in PATTERNS.get(baseline, ())]
    dropped = {name: value for name, value in sorted(environment.items())
               if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
    return {name: value for name, value in environment.items() if name not in dropped}, dropped


def notes(name, dropped):
    """One line per removed variable."""
    return [f"{name}: {variable}={value} is removed: it slows the baseline down" for variable, value in dropped.items()]
