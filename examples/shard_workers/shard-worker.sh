#!/bin/sh
# A worker for one shard: `tenure work --pool shards --keys s/1,s/2 -- examples/shard_workers/shard-worker.sh DIR`
# runs one of these for each shard that it holds.
#
# It goes on where the worker before it stopped (TENURE_VALUE), writes only under its fencing token, and
# leaves a checkpoint (TENURE_VALUE_FILE) when it is told to end.
set -eu

out=$1/$(printf %s "$TENURE_KEY" | tr / -)
next=${TENURE_VALUE:-1}

checkpoint() {
  printf %s "$next" >"$TENURE_VALUE_FILE"
}
# Between two steps, never in the middle of one.
told_to_end=
trap 'told_to_end=yes' TERM

while [ -z "$told_to_end" ]; do
  # The lease file is gone when the lease is lost: better to do nothing than to do it twice.
  [ -e "$TENURE_LEASE_FILE" ] || exit 1
  echo "$next $TENURE_TOKEN" >>"$out"
  next=$((next + 1))
  checkpoint
  sleep 0.1 || :
done
