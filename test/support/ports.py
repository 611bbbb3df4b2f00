"""Free ports for tests."""
import secrets
import socket


def free_port(family=socket.AF_INET, address="127.0.0.1"):
    """A free port below the ephemeral ports (32768 and up), so the kernel does not give it to another program's connection."""
    while True:
        port = 20000 + secrets.randbelow(10000)
        with socket.socket(family) as probe:
            try:
                probe.bind((address, port))
                return port
            except OSError:
                pass
