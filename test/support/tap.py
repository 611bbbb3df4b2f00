"""Runs a unittest file and reports in the Test Anything Protocol, so that each test counts and each skip shows its reason."""

import os
import sys
import time
import unittest


class _TapResult(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.number = 0
        self.started = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def _line(self, test, passed, note=""):
        self.number += 1
        status = "ok" if passed else "not ok"
        took = f" ({time.monotonic() - self.started:.1f} s)" if not note else ""
        print(f"{status} {self.number} - {test.id().split('.', 1)[-1]}{took}{note}", flush=True)

    def _failure(self, test, error):
        self._line(test, False)
        for line in self._exc_info_to_string(error, test).splitlines():
            print(f"# {line}")
        sys.stdout.flush()

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line(test, True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line(test, True, f" # SKIP {reason}")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._failure(test, error)

    def addError(self, test, error):
        super().addError(test, error)
        self._failure(test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self._failure(subtest, error)


def main(devices=False):
    """Runs the tests of the calling module, or those named on the command line. Without `devices`, started processes see no GPU, so
    results do not depend on the machine."""
    if not devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    sys.stdout.reconfigure(line_buffering=True)
    loader = unittest.defaultTestLoader
    module = sys.modules["__main__"]
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    result = _TapResult()
    suite.run(result)
    print(f"1..{result.number}")
    sys.exit(0 if result.wasSuccessful() else 1)
