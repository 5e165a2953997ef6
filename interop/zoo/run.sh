#!/usr/bin/env bash
# Measures what `refrun check` catches, against the fault zoo. Needs a Python 3 with
# numpy ($PYTHON, python3 by default); builds refrun unless --binary names one.
#
#   interop/zoo/run.sh --set tuning --modes float16 --limit 200
#   interop/zoo/run.sh --binary ./refrun --set reporting --noise both --evidence trajectory,layers --json power.json
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

binary=()
case " $* " in
*" --binary "* | *" --binary="* | *" --baselines-only "*) ;;
*)
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	(cd "$here/../.." && go build -o "$work/refrun" ./cmd/refrun)
	binary=(--binary "$work/refrun")
	;;
esac
"${PYTHON:-python3}" "$here/power.py" ${binary[@]+"${binary[@]}"} "$@"
