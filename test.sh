#!/usr/bin/env bash
# Installs what is missing, builds and tests. --quick: static checks, debug build, unit tests (under a
# minute once built), and clang-tidy for what has changed. --everything: as CI does, also what takes
# long and seldom breaks alone (label everything: packages, other Pythons, guests, the examples of docs/adding).
set -u
cd "$(dirname "$0")"
case "${1:-}" in
'' | --quick | --everything) ;;
*)
    echo "usage: $0 [--quick | --everything]" >&2
    exit 2
    ;;
esac
unset RKNND_SERVER RKNND_DAEMON RKNN_LOG_LEVEL RKNN_SERVER_LOGLEVEL

passed=0 failed=0 skipped=0 unsteady=0
log=$(mktemp) again=$(mktemp)
trap 'rm -f "$log" "$again"' EXIT

note() { printf '\n== %s (at %ss)\n' "$1" "$SECONDS"; }

fail() {
    failed=$((failed + 1))
    echo "FAILED: $1"
}

# One check that is not a ctest.
check() { if "$@"; then passed=$((passed + 1)); else fail "$*"; fi; }

# checks COMMAND…: several at once, each with its words in one piece.
checks() {
    local command said=() running=()
    for command in "$@"; do
        said+=("$(mktemp)")
        "$command" >"${said[-1]}" 2>&1 &
        running+=($!)
    done
    for command in "$@"; do
        check_ended "$command" "${running[0]}" "${said[0]}"
        running=("${running[@]:1}") said=("${said[@]:1}")
    done
}

check_ended() {
    if wait "$2"; then passed=$((passed + 1)); else fail "$1"; fi
    cat "$3"
    rm "$3"
}

# build PRESET [TARGET]
build() {
    tests/configure.sh "$1" "$1" >"$log" 2>&1 && cmake --build --preset "$1" --target "${2:-all}" >>"$log" 2>&1 && return
    grep -E -A6 'error|FAILED|warning' "$log" | head -n 60
    return 1
}

count() { grep -cE "^ *[0-9]+/[0-9]+ Test .*($1)" "$log"; }

# Adds up what ctest says, and shows all but what passed. One test more than there are processors, since many wait.
run_ctest() {
    ctest --preset "$1" -j"$(($(nproc) + 1))" --no-tests=error "${@:2}" >"$log" 2>&1
    local status=$? ok bad names
    ok=$(count ' Passed ') bad=$(count '\*\*\*(Failed|Timeout|Exception|Not Run)|\(Not Run\)')
    grep -vE '^ *[0-9]+/[0-9]+ Test .* Passed |^ *Start ' "$log"
    mapfile -t names < <(sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .*(\*\*\*(Failed|Timeout|Exception)|Not Run).*/\1/p' "$log")
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + $(count '\*\*\*Skipped')))
    [ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || fail "ctest --preset $1 (exit code $status)"
    [ "${#names[@]}" -eq 0 ] || run_again "$1" "${names[@]}"
}

# run_again PRESET TESTS…: alone, what failed beside others. What passes then is unsteady: a bug of the test or of rknnd, told at the end,
# but not one that this change must have. More than three in a suite are no chance: they stay failed.
run_again() {
    local name
    for name in "${@:2}"; do
        echo "to run it alone: ctest --preset $1 -R '^$name\$' --output-on-failure"
    done
    [ "$#" -le 4 ] || return
    for name in "${@:2}"; do
        if ctest --preset "$1" -R "^$name\$" --output-on-failure --no-tests=error >"$again" 2>&1; then
            echo "UNSTEADY: $name (failed above, passes alone)"
            failed=$((failed - 1)) passed=$((passed + 1)) unsteady=$((unsteady + 1))
        else
            echo "$name fails alone, too:"
            cat "$again"
        fi
    done
}

# suite PRESET TARGET CTEST_ARGUMENTS…
suite() {
    note "$1"
    if build "$1" "$2"; then run_ctest "$1" "${@:3}"; else fail "the $1 build"; fi
}

# clang-tidy needs the generated headers of a build.
tidy() {
    note "clang-tidy"
    check tests/clang-tidy "${@:2}" "$1"
}

finish() {
    [ "$unsteady" -eq 0 ] || printf '\n%s of those that passed are unsteady, see above\n' "$unsteady"
    printf '\n%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit
}

if ! tests/install-deps.sh all; then
    fail "installing packages"
    finish
fi

note "static checks"
checks tests/static/*

if [ "${1:-}" = --quick ]; then
    suite debug all -L unit -LE slow
    tidy debug --quick
    finish
fi
if [ "${1:-}" = --everything ]; then
    suite release all
else
    suite release all -LE everything
fi
tidy release
suite asan all -LE release-only
suite tsan all -L tsan
suite fuzz fuzz_targets -L fuzz -j"$(nproc)" # bursts compute
finish
