"""Structure of the library: a layer can include only the layers that it uses, and only the public API is exported."""

import json
import os
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

from prefix import BUILD, ROOT, need, run

import tap

EXPORTED = Path(__file__).with_name("exported_symbols.txt")
INLINE = "  (inline)"
EXPORTED_NCCL = Path(__file__).with_name("exported_nccl_symbols.txt")


def compile_commands():
    return json.loads((BUILD / "compile_commands.json").read_text())


def compiles(layer, header):
    """True if a source of the layer can include the header. Skips if the layer's sources have no compile command of their own."""
    command = next((command for command in compile_commands() if f"libtutti_{layer}.a.p" in command["output"]), None)
    if command is None:
        raise unittest.SkipTest(f"compile_commands.json has no command of layer {layer}")
    words = [word for word in shlex.split(command["command"]) if word not in ("-c", "-MD") and not word.endswith(".cpp")]
    for option in ("-o", "-MQ", "-MF"):
        if option in words:
            del words[words.index(option):words.index(option) + 2]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "includes.cpp"
        source.write_text(f'#include "{header}"\n')
        done = subprocess.run([*words, "-fsyntax-only", source], cwd=command["directory"], text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0 and f"{header}: No such file" not in done.stdout and f"'{header}' file not found" not in done.stdout:
        raise AssertionError(done.stdout)
    return done.returncode == 0


class Layers(unittest.TestCase):
    def test_an_include_of_a_layer_that_is_not_used_does_not_compile(self):
        for layer, header in [("base", "launch/place.hpp"), ("launch", "rendezvous/peers.hpp"), ("rendezvous", "control/plane.hpp"),
                              ("control", "store/open.hpp"), ("control", "transport/links.hpp"), ("transport", "engine/task.hpp"),
                              ("algorithm", "transport/links.hpp"), ("engine", "communicator/backend.hpp"),
                              ("communicator", "device/provider.hpp"), ("store", "control/plane.hpp")]:
            with self.subTest(layer=layer, header=header):
                self.assertTrue(list((ROOT / "lib").glob(f"*/include/{header}")), f"no header {header}: correct this test")
                self.assertFalse(compiles(layer, header))

    def test_an_include_of_a_layer_that_is_used_compiles(self):
        for layer, header in [("launch", "base/log.hpp"), ("control", "rendezvous/peers.hpp"), ("communicator", "engine/task.hpp")]:
            with self.subTest(layer=layer, header=header):
                self.assertTrue(compiles(layer, header))


class Symbols(unittest.TestCase):
    def test_only_the_public_api_is_exported(self):
        library = next(path for path in (BUILD / "lib").glob("libtutti.so.*") if path.is_file() and not path.is_symlink()
                       and path.suffix != ".symbols")
        self.compare(library, EXPORTED)

    def test_the_preload_exports_what_it_puts_in_front_of_nccl(self):
        self.compare(BUILD / "preload" / "libtutti_nccl.so", EXPORTED_NCCL)

    def compare(self, library, list_of_symbols):
        need("nm")
        lines = [line.split(" ", 2) for line in run("nm", "-DC", "--defined-only", library).splitlines()]
        # Whether an inline function is exported, too, is the compiler's choice; programs that use it have their own.
        found = sorted({name + INLINE if kind == "W" else name for _, kind, name in lines})
        if os.environ.get("TUTTI_WRITE_SYMBOLS"):
            listed = list_of_symbols.read_text().splitlines()
            kept = [symbol for symbol in listed if symbol.endswith(INLINE)]
            list_of_symbols.write_text("".join(f"{symbol}\n" for symbol in sorted({*found, *kept})))
        listed = list_of_symbols.read_text().splitlines()
        self.assertEqual([symbol for symbol in found if symbol not in listed], [],
                         "exported, but not listed: hide it, or run this test with TUTTI_WRITE_SYMBOLS=1")
        self.assertEqual([symbol for symbol in listed if symbol not in found and not symbol.endswith(INLINE)], [],
                         "listed, but not exported any more: programs that use it break")


if __name__ == "__main__":
    tap.main()
