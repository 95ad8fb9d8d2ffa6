#!/bin/sh
# The shared library as an installed one: a plain C program, compiled with nothing but the header and the library,
# runs against a server; and only the header's functions are exported.
# usage: shared_library_test.sh LIBRARY HEADER PROGRAM.c SERVER
set -eu
library=$1 header=$2 program=$3 server=$4
folder=$(mktemp -d "${TEST_TMPDIR:-/tmp}/shared_library.XXXXXX")
server_pid=
finish() {
    [ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

declared=$(grep -v '^typedef' "$header" | grep -o '\baclnn_[a-z0-9_]*(' | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort -u)
if [ "$declared" != "$exported" ]; then
    echo "FAIL: the library's functions are not those of the header"
    echo "$declared" >"$folder/declared"
    echo "$exported" | diff "$folder/declared" - || true
    exit 1
fi

# A sanitized library needs a program of its kind.
sanitizer=
case $(ldd "$library") in
*libasan*) sanitizer=-fsanitize=address ;;
*libtsan*) sanitizer=-fsanitize=thread ;;
*libubsan*) sanitizer=-fsanitize=undefined ;;
esac

warnings="-Wall -Wextra -Werror -Wno-missing-field-initializers"
# shellcheck disable=SC2086 # lists of flags
cc -std=c11 $warnings $sanitizer -I. "$program" -o "$folder/program" "$library"
# C++ programs can include it too.
c++ $warnings -fsyntax-only -x c++ "$header"
mkfifo "$folder/output"
"$server" --listen 127.0.0.1:0 >"$folder/output" 2>"$folder/log" &
server_pid=$!
exec 3<"$folder/output"
read -r _ _ address <&3

LD_LIBRARY_PATH=$(dirname "$library") "$folder/program" "$address" >"$folder/gradient"
cat >"$folder/expected" <<'END'
   0   1   0   0
   0   0   2   0
   3   0   4   0
   0   0   0   0
END
diff "$folder/expected" "$folder/gradient"
echo "PASS"
