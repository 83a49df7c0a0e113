#!/bin/sh
# Stops the service, and returns when it is gone. Succeeds when it does not run.
. "$(dirname "$0")/names.sh"
file="$SINGLETON_DIR/pid-$TENURE_OWNER"
[ -e "$file" ] || exit 0
pid=$(cat "$file")
kill "$pid" 2>/dev/null
while kill -0 "$pid" 2>/dev/null && ! grep -q ') Z' "/proc/$pid/stat" 2>/dev/null; do sleep 0.02; done
rm -f "$file"
