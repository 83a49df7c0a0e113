#!/usr/bin/env python3
"""Runs a command of nextest and repeats its count as the last line: `N passed, N failed`."""

import re
import subprocess
import sys

failed_to_run = True
passed = failed = 0
command = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
for line in command.stdout:
    print(line, end="", flush=True)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
    if re.search(r"Summary \[.*tests? run:", plain):
        failed_to_run = False
        passed = sum(int(n) for n in re.findall(r"(\d+) passed", plain))
        failed = sum(int(n) for n in re.findall(r"(\d+) (?:failed|timed out)", plain))
code = command.wait()
if code != 0 and failed == 0 or failed_to_run:
    failed, code = failed + 1, code or 1
print(f"{passed} passed, {failed} failed")
sys.exit(code)
