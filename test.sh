#!/usr/bin/env bash
# Installs, builds and runs everything that CI checks. --quick: static checks, debug build, unit
# tests (under a minute once built).
set -u
cd "$(dirname "$0")"

passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

note() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

# One check that is not a ctest.
check() {
    local name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $name"
    fi
}

build() {
    cmake --preset "$1" >"$log" 2>&1 && cmake --build --preset "$1" >>"$log" 2>&1 || {
        grep -E -A6 'error|FAILED|warning' "$log" | head -n 60
        return 1
    }
}

# Adds up what ctest says. "Skipped" counts as neither passed nor failed.
run_ctest() {
    local preset=$1
    shift
    ctest --preset "$preset" -j2 --no-tests=error "$@" 2>&1 | tee "$log" | grep -vE '^ *[0-9]+/[0-9]+ .* Passed|^ *Start '
    passed=$((passed + $(grep -cE '^ *[0-9]+/[0-9]+ Test .* Passed ' "$log")))
    skipped=$((skipped + $(grep -cE '^ *[0-9]+/[0-9]+ Test .*Skipped ' "$log")))
    failed=$((failed + $(grep -cE '^ *[0-9]+/[0-9]+ Test .*(\*\*\*Failed|\*\*\*Timeout|\*\*\*Exception|\*\*\*Not Run)' "$log")))
    grep -qE '^ *[0-9]+/[0-9]+ Test ' "$log" || {
        failed=$((failed + 1))
        echo "FAILED: no test ran in $preset"
    }
}

suite() {
    local preset=$1
    shift
    note "$preset"
    if build "$preset"; then run_ctest "$preset" "$@"; else
        failed=$((failed + 1))
        echo "FAILED: the $preset build"
    fi
}

finish() {
    printf '\n%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit
}

tests/install-deps.sh all || exit 1
if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache
fi

note "static checks"
for script in tests/static/*; do
    check "$script" "$script"
done

if [ "${1:-}" = --quick ]; then
    suite debug -L unit
    finish
fi

suite release
suite asan -LE 'release-only'
suite tsan -L tsan
suite fuzz -L fuzz
finish
