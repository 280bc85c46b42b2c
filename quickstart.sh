#!/usr/bin/env bash
# Installs, builds, and shows a model running through rknnd over TCP, with no board.
set -eu
cd "$(dirname "$0")"
unset RKNND_SERVER RKNND_DAEMON RKNN_LOG_LEVEL RKNN_SERVER_LOGLEVEL

out=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; rm -rf "$out"' EXIT

tests/install-deps.sh build

echo "== building"
# A folder that has the tests keeps them.
preset=quickstart
grep -qs '^RKNND_TESTS:.*=ON$' build/release/CMakeCache.txt && preset=release
tests/configure.sh $preset release >"$out/log" 2>&1 &&
    cmake --build build/release --target {base,tensor,protocol,npu,custom,server,client,python,tools,quant,kserve,helpers,examples}/all >>"$out/log" 2>&1 || {
    tail -n 40 "$out/log" >&2
    exit 1
}

bin=build/release/bin
digits=examples/digits

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

free_port() {
    /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

port=$(free_port)
printf '\n== the daemon, with the software NPU of an RK3588\n$ rknnd --backend sim:rk3588 --listen tcp:127.0.0.1:%s &\n' "$port"
$bin/rknnd --backend sim:rk3588 --listen "tcp:127.0.0.1:$port" &
daemon=$!
export RKNND_SERVER=tcp:127.0.0.1:$port
for _ in $(seq 100); do
    $bin/rknnctl ping -n 1 >/dev/null 2>&1 && break
    kill -0 "$daemon" || exit 1
    sleep 0.1
done

printf '\n== a C program with the ordinary RKNN API recognises digits\n'
show $bin/digits $digits/digits.rknn $digits/pictures/*.png

printf '\n== the same by rknnctl, with the times of every layer, and the memory\n'
picture=$(ls $digits/pictures/*.png | tail -n 1)
show $bin/rknnctl run $digits/digits.rknn -i "$picture" -o "$out" --perf
show $bin/rknnctl info

printf '\n== the daemon ends\n'
kill -TERM "$daemon"
wait "$daemon"
daemon=
echo "Done. Next: ./test.sh, README.md."
