"""Runs rdma-core's own tests and writes one line for each: outcome, name, reason.

Arguments: the folder that holds rdma-core's `tests`, the file to write, seconds per test, and
patterns (shell style) of the tests to run.
"""
import fnmatch
import os
import signal
import sys
import traceback
import unittest

folder, report, limit, patterns = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
sys.path[:0] = [folder, os.path.join(folder, "tests")]
sys.argv[1:] = []

from args_parser import parser  # noqa: E402  (rdma-core's)
parser.parse_args()
import tests  # noqa: E402


class Slow(Exception):
    pass


def too_slow(_signal, _frame):
    raise Slow(f"took longer than {limit} s")


class Lines(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out

    def line(self, outcome, test, reason):
        name = test.id() if hasattr(test, "id") else str(test)
        print(outcome, name.removeprefix("tests."), " ".join(str(reason).split())[:300], file=self.out, flush=True)

    def startTest(self, test):
        super().startTest(test)
        signal.alarm(limit)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test):
        self.line("ok", test, "")

    def addSkip(self, test, reason):
        self.line("skip", test, reason)

    def addFailure(self, test, error):
        self.line("fail", test, error[1])
        traceback.print_exception(*error)

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(test, error)


def cases(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases(part)
        elif not patterns or any(fnmatch.fnmatch(part.id(), "tests." + p) for p in patterns):
            yield part


signal.signal(signal.SIGALRM, too_slow)
with open(report, "w") as out:
    everything = unittest.defaultTestLoader.loadTestsFromModule(tests)
    unittest.TestSuite(cases(everything)).run(Lines(out))
