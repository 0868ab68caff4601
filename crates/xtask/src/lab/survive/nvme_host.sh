# For $seconds: other bytes each time, written to the disk and read from it, both past the page cache.
set -eu
modprobe nvme-rdma
# The target may still be busy with its modules.
for _ in $(seq 100); do
    ! nvme connect -t rdma -a "$A" -s 4420 -n lab -i 2 > /dev/null 2>&1 || break
    sleep 0.2
done
trap 'nvme disconnect -n lab > /dev/null' EXIT
until disk=$(ls /dev/nvme*n1 2> /dev/null); do sleep 0.1; done
folder=$(mktemp -d)
end=$(($(date +%s) + seconds))
rounds=0
while [ "$(date +%s)" -lt "$end" ]; do
    head -c 4M /dev/urandom > "$folder/written"
    for block in 256k 4k; do
        dd if="$folder/written" of="$disk" bs=$block oflag=direct status=none
        dd if="$disk" of="$folder/read" bs=$block count=4M iflag=direct,count_bytes status=none
        cmp "$folder/written" "$folder/read"
    done
    rounds=$((rounds + 1))
done
rm -r "$folder"
echo "$rounds rounds of 16 MiB"
