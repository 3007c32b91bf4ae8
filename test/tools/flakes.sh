#!/bin/bash
# test/tools/flakes.sh ROUNDS PACKAGES... runs the tests of each package ROUNDS times with the race detector, in another order
# each time, two packages at once beside a load on both cores. Prints each failed test with the seed of its order; what it
# printed is in the file named beside it. `go test -race -shuffle SEED PACKAGE` repeats an order.
set -euo pipefail
export rounds=$1 logs table
shift
logs=$(mktemp -d -t flakes-XXXXXX) table=$logs/table

flake() { # flake PACKAGE DIR
	local name=${1//\//_} seed failed=0 began=$SECONDS
	CGO_ENABLED=1 go test -c -race -vet=off -ldflags='-s -w' -o "$logs/$name.test" "$1" || { echo "FAILED $1: does not compile"; return 1; }
	cd "$2"
	for seed in $(shuf -i 1-1000000000 -n "$rounds"); do
		if ! "$logs/$name.test" -test.shuffle "$seed" -test.timeout 15m >"$logs/$name.$seed" 2>&1 </dev/null; then
			failed=$((failed + 1))
			{ grep -E '^ *--- FAIL|^panic:|DATA RACE' "$logs/$name.$seed" || echo died; } | sort -u | sed "s|^ *|FAILED $1 seed $seed $logs/$name.$seed: |"
		else
			rm "$logs/$name.$seed"
		fi
	done
	rm "$logs/$name.test"
	printf '%-70s %6d %6d %8d\n' "$1" "$rounds" "$failed" $((SECONDS - began)) >>"$table"
	[ "$failed" = 0 ]
}
export -f flake

# shellcheck disable=SC2016 # for bash -c
status=0
go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' "$@" | xargs -P 2 -L 1 bash -c 'flake "$0" "$1"' || status=1
printf '\n%-70s %6s %6s %8s\n' package rounds failed seconds
sort "$table"
[ "$status" != 0 ] || rm -r "$logs"
exit "$status"
