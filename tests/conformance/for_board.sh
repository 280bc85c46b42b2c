#!/bin/sh
# Builds the programs against any library with the RKNN API, like the vendor's of a board. What asks
# for more than that API (rknnd_*.c) is left out.
#
#   for_board.sh OUT LIBRARY [HEADERS]      with CC, CFLAGS and LDFLAGS of the environment
set -eu
out=$1 library=$2
here=$(cd "$(dirname "$0")" && pwd)
headers=${3:-$here/../../client/include}
: "${CC:=cc}" "${CFLAGS:=-O2}" "${LDFLAGS:=}"
rm -rf "$out/objects" # what was built of an older tree
mkdir -p "$out/objects"

programs=
for source in "$here"/*.c "$here"/*/*.c; do
    name=$(basename "$source" .c)
    case $name in
    rknnd_*) continue ;;
    custom_op_opencl) # not every board has OpenCL
        if ! echo '#include <CL/cl.h>' | $CC $CFLAGS -E - >/dev/null 2>&1; then
            echo "$name is left out: there is no CL/cl.h" >&2
            continue
        fi
        ;;
    esac
    if grep -q '^int main' "$source"; then
        programs="$programs $source"
    else
        $CC -std=gnu11 -D_GNU_SOURCE $CFLAGS -I "$headers" -c -o "$out/objects/$name.o" "$source"
    fi
done

for source in $programs; do
    name=$(basename "$source" .c) more=
    if [ "$name" = custom_op_opencl ]; then
        more=-lOpenCL
    fi
    $CC -std=gnu11 -D_GNU_SOURCE $CFLAGS -I "$headers" -o "$out/$name" "$source" \
        "$out"/objects/*.o "$library" $more -lm -pthread $LDFLAGS
    echo "$name"
done
