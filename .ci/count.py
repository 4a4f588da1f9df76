#!/usr/bin/env python3
"""Counts the tests in Meson's JSON logs: every doctest case, and every test that is not a doctest executable as one.

Prints "N passed, N failed" and exits with 1 if anything failed or nothing ran.
"""
import json
import re
import sys

CASES = re.compile(r"^\[doctest\] test cases: +\d+ \| +(\d+) passed \| +(\d+) failed", re.MULTILINE)
GOOD = ("OK", "EXPECTEDFAIL", "SKIP", "IGNORED")

passed = failed = 0
for path in sys.argv[1:]:
    try:
        lines = open(path, encoding="utf-8", errors="replace").readlines()
    except OSError:
        continue
    for test in map(json.loads, lines):
        good = test["result"] in GOOD
        cases = CASES.findall(test.get("stdout") or "")
        for case_passed, case_failed in cases:
            passed += int(case_passed)
            failed += int(case_failed)
        case_failures = sum(int(count) for _, count in cases)
        if not good and case_failures == 0:
            failed += 1  # it crashed or ran out of time before it could count
        elif good and not cases and test["result"] not in ("SKIP", "IGNORED"):
            passed += 1

print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0 or passed == 0)
