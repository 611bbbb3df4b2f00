"""Ports for a test to meet at."""
import secrets
import socket


def free_port(family=socket.AF_INET, address="127.0.0.1"):
    """Below the range from which the kernel takes ports for outgoing connections of anybody (32768 and up): what is free now stays
    free unless another program names it."""
    while True:
        port = 20000 + secrets.randbelow(10000)
        with socket.socket(family) as probe:
            try:
                probe.bind((address, port))
                return port
            except OSError:
                pass
