# Ends a cluster once nobody holds the other end of standard input any more: the process that started it
# dropped it, ended, or was killed, be it by SIGKILL. $1 is the cluster's folder.
#
# A cluster's processes are found by the variable that each of them was started with. There is no list of
# process ids to keep, a used-again id can't be hit, and a process started an instant ago isn't missed.
dir=$1
# Ctrl-C, a closed terminal and the like are for those we clean up after.
trap '' HUP INT QUIT TERM

while read -r line; do
  if [ "$line" = keep ]; then exit 0; fi
done

members() {
  if [ -d /proc/self ]; then
    grep -lszxF "COPYRATOR_DEVCLUSTER_DIR=$dir" /proc/[0-9]*/environ | cut -d/ -f3
  else
    ps -A -E -ww -o pid= -o command= | grep "[C]OPYRATOR_DEVCLUSTER_DIR=$dir" | awk '{print $1}'
  fi
}

rounds=0
while pids=$(members); [ -n "$pids" ] && [ "$rounds" -lt 100 ]; do
  # Nothing of a cluster is worth an orderly end, and paused processes would not answer anyway.
  kill -9 $pids 2>/dev/null
  rounds=$((rounds + 1))
  sleep 0.05
done
rm -rf "$dir"
