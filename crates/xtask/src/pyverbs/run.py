"""Runs rdma-core's own tests and writes one line for each: outcome, name, reason. A pattern that no test matches is the
one line "unknown PATTERN REASON", and nothing runs.

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


def cases(suite, wanted):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases(part, wanted)
        elif any(fnmatch.fnmatch(part.id().removeprefix("tests."), pattern) for pattern in wanted):
            yield part


def unknown(everything):
    """The first pattern that no test matches, with the names that there are."""
    names = [test.id().removeprefix("tests.") for test in cases(everything, ["*"])]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            modules = sorted({name.split(".")[0] for name in names})
            return f"unknown {pattern} the modules are: {'; '.join(modules)}"
    return None


signal.signal(signal.SIGALRM, too_slow)
with open(report, "w") as out:
    everything = unittest.defaultTestLoader.loadTestsFromModule(tests)
    refused = unknown(everything)
    if refused:
        print(refused, file=out)
    else:
        unittest.TestSuite(cases(everything, patterns or ["*"])).run(Lines(out))
