#!/usr/bin/env bash
# expect_caught.sh PATTERN REPORTS RUN_TEST PROGRAM
# Succeeds if RUN_TEST fails PROGRAM and a report in REPORTS says PATTERN.
set -euo pipefail

pattern=$1
reports=$2
run_test=$3
program=$4

if "$run_test" --reports "$reports" -- "$program"; then
    echo "the planted fault passed: $program" >&2
    exit 1
fi
if ! grep -rqF -- "$pattern" "$reports"; then
    echo "no report in $reports says '$pattern'" >&2
    exit 1
fi
echo "caught: $pattern"
