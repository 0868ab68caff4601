#!/bin/sh
# Sends files to `vrdma-cp --receive FOLDER --port 18601 --timeout 2` on HOST, and then misbehaves in every way: the
# receiver must say what is wrong, keep nothing, and take the next file.
#   check.sh FOLDER HOST      vrdma-cp and rude lie beside this script
set -u
here=$(dirname "$0") folder=$1 host=$2
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
failures=0

wrong() {
  echo "wrong: $*"
  failures=$((failures + 1))
}

# file BYTES OPTIONS...: arrives byte by byte
file() {
  bytes=$1 name=file-$1
  shift
  head -c "$bytes" /dev/urandom > "$work/$name"
  "$here/vrdma-cp" "$work/$name" "$host" --port 18601 "$@" || wrong "$name $*"
  cmp "$work/$name" "$folder/$name" && echo "same $bytes" || wrong "$name $* came different"
}

# manner NAME WORDS: the receiver answers with the words
manner() {
  said=$("$here/rude" "$host" "$1" 2>&1)
  status=$?
  case $status:$said in
    1:*"$2"*) echo "manner $1: $said" ;;
    *) wrong "manner $1: status $status, $said" ;;
  esac
}

# receiver NAME WORDS: vrdma-cp says the words about a receiver of this manner, here
receiver() {
  "$here/rude" --receive "$1" 2> "$work/rude" &
  rude=$!
  for attempt in 1 2 3 4 5 6 7 8 9 10; do
    said=$("$here/vrdma-cp" --pattern 1M "${B:-localhost}" --port 18601 --timeout 5 2>&1)
    status=$?
    case $said in *refused*) sleep 0.1 ;; *) break ;; esac
  done
  wait "$rude"
  case $status:$said in
    1:*"$2"*) echo "receiver $1: $said" ;;
    *) wrong "receiver $1: status $status, $said" ;;
  esac
}

for bytes in 0 1 1048575 1048576 1048577 100000000; do file "$bytes"; done
file 300001 --segment 64K --slots 3
file 3001 --segment 1 --slots 64 --poll

manner climbs 'name of the file is refused'
manner nameless 'name of the file is refused'
manner huge 'limit'
manner talks-first 'does not begin with an offer'
manner ends-early 'does not keep to the protocol'
manner disorder 'out of order'
manner long-segment 'a segment of 65537 bytes'
manner too-much 'where 0 were to come'
manner wrong-sum 'checksum is wrong'
manner outside 'connection broke'
manner flood 'does not keep to the protocol'
manner silent 'nothing came'
"$here/rude" "$host" vanishes
receiver credit-before 'does not keep to the protocol'
receiver says-done 'does not keep to the protocol'
receiver refuses 'gave up: no ?[31mroom'
receiver leaves 'went away'

"$here/vrdma-cp" "$work/file-1" "$host" --port 18601 2>&1 | grep 'File exists' || wrong 'a file was replaced'
file 4096
left=$(find "$folder" ! -name 'file-*' -type f)
[ -z "$left" ] || wrong "left over: $left"
[ ! -e "$folder/../climbs" ] || wrong 'a file outside of the folder'
[ "$failures" = 0 ] && echo 'all is well'
[ "$failures" = 0 ]
