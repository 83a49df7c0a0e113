# What a worker's program does here: it says that it began, beats, and says that it ended. One file per
# key; nothing is started in the loop, so that hundreds of these cost next to nothing.
# A lock that only one living process can have shows two of them at once, however short.
name=${TENURE_KEY//\//-}
moment() { read -r up _ </proc/uptime; }
say() { moment; echo "$1 $TENURE_TOKEN $$ $up" >>"$CHAOS/log/$name"; }
exec 9>>"$CHAOS/lock/$name"
if flock -n 9; then say begin; else say overlap; fi
# Every fourth does not end when it is told to, unless all are to.
if [[ -n $CHAOS_POLITE ]] || (( ${name//[^0-9]/} % 4 )); then trap 'say end; exit 0' TERM; else trap '' TERM; fi
exec 3<>"$CHAOS/fifo"
while :; do
  read -r -t "$CHAOS_BEAT" -u 3 _
  say beat
done
