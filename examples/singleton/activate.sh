#!/bin/sh
# Starts the service. What it leaves running lives until deactivate.sh ends it, or the agent ends.
here=$(dirname "$0")
. "$here/names.sh"
"$here/ticker.sh" &
printf '%s\n' "$!" >"$SINGLETON_DIR/pid-$TENURE_OWNER"
