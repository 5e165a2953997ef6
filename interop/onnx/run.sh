#!/bin/bash
# Runs the test cases of the onnx package that use only operations of package onnx's table:
# writes them with Python and evaluates them here. Needs the onnx package, 1.23.2.
#
#   interop/onnx/run.sh [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/../.."
cases=$(mktemp -d)
trap 'rm -rf "$cases"' EXIT
"${1:-python3}" interop/onnx/cases.py "$cases/cases.zip"
go test ./onnx -run '^TestSuite$' -v -count=1 -onnx.cases "$cases/cases.zip"
