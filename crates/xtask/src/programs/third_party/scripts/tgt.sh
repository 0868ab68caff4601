# An iSER target with a disk of random bytes. Clients come before it is complete, and come again.
mkdir -p /run/tgtd
head -c 16777216 /dev/urandom >$SHARED/disk
tgtd -f --iser port=3260 2>$SHARED/tgtd.log &
for try in $(seq 50); do tgtadm --mode sys --op show >/dev/null 2>&1 && break; sleep 0.1; done
target() { tgtadm --lld iser --tid 1 "$@"; }
target --mode target --op new --targetname iqn.2026-01.lab:target &&
target --mode logicalunit --op new --lun 1 --backing-store $SHARED/disk &&
target --mode target --op bind -I ALL &&
target --mode target --op bind -Q iqn.2026-01.lab:client || exit 1
wait
