#!/bin/sh
# The service of this example: it writes a line with its fencing token five times a second.
while :; do
  printf '%s %s\n' "$TENURE_OWNER" "$TENURE_TOKEN" >>"$SINGLETON_DIR/ticks"
  sleep 0.2
done
