"""What failing calls raise."""


class Error(RuntimeError):
    """A call failed. str() is one sentence that a person can act on.

    code: "timeout", "peer_lost", "mismatch", "aborted", "usage" or "system".
    failed_ranks: ranks of the job that caused it, in ascending order; empty where none can be named.
    rank, host: where it was raised; -1 and "" before the rank is known.
    operation: the call ("all_reduce of 4 f32, sum"); "" outside a call.

    After all but "usage" the communicator is broken: each later call raises the same error again.
    """

    def __init__(self, sentence: str, code: str = "usage", failed_ranks=(), rank: int = -1, host: str = "", operation: str = ""):
        super().__init__(sentence)
        self.code = code
        self.failed_ranks = list(failed_ranks)
        self.rank = rank
        self.host = host
        self.operation = operation
