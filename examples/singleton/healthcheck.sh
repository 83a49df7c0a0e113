#!/bin/sh
# $1 is what this agent is: a standby must be able to write, an active one must have its service running.
. "$(dirname "$0")/names.sh"
case "$1" in
  active) kill -0 "$(cat "$SINGLETON_DIR/pid-$TENURE_OWNER")" ;;
  standby) [ -w "$SINGLETON_DIR" ] ;;
esac
