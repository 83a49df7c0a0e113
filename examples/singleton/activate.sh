#!/bin/sh
# Starts the service. What it leaves running lives until deactivate.sh ends it, or the agent ends.
here=$(dirname "$0")
"$here/ticker.sh" &
echo $! >"$SINGLETON_DIR/pid-$TENURE_OWNER"
