#!/bin/sh
# A worker for one shard: `tenure work --pool shards --keys s/1,s/2 -- examples/shard_workers/shard-worker.sh DIR`
# runs one of these for each shard that it holds.
#
# It goes on where the worker before it stopped (TENURE_VALUE), writes only under its fencing token, and
# leaves a checkpoint (TENURE_VALUE_FILE) when it is told to end.
set -eu

export LC_ALL=C

# The key becomes the name of a file. Only / is replaced, by a character that no key may have here, so two keys are never one
# file.
case $TENURE_KEY in
  '' | . | .. | -* | *[!A-Za-z0-9._/-]*)
    echo "the key has other characters than A-Z, a-z, 0-9, ., _, / and -, or begins with -" >&2
    exit 1
    ;;
esac
out=$1/$(printf %s "$TENURE_KEY" | tr / +)
# Whoever held the shard before chose the value. The shell would run a command that stands in it.
next=${TENURE_VALUE:-1}
case $next in
  *[!0-9]* | 0?* | ???????????????*)
    echo "the checkpoint is no number of up to 14 digits" >&2
    exit 1
    ;;
esac

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
