#!/bin/sh
# Makes this guest a host with the image $1, which is its own disk, and measures the cell $2 in guests of its own.
set -eu
image=$1 cell=$2

for virtualisation in kvm_amd kvm_intel; do
    modprobe -q "$virtualisation" || true
done
modprobe vfio-pci

# A card that carries routes is nobody's to lend.
ip address flush dev eth0

cache=/root/cache
mkdir -p "$cache/$image"
ln -s / "$cache/$image/root"
ln -s /dev/vda "$cache/$image/disk.ext4"

card=/sys/class/net/eth0/device
# The lab would take such a slow KVM for none.
if [ -e /dev/kvm ]; then export VRDMA_ACCEL=kvm; fi
export VRDMA_LAB_PATIENCE=10
# No cell that lends functions needs vrdmad or its library, but they are looked for.
export VRDMA_CACHE=$cache VRDMA_LAB_AGENT=/lab/agent VRDMA_VRDMAD=/root/vrdma-study
/root/vrdma-study run "$cell" --short --library /root/vrdma-study --out /root/study

[ "$(cat $card/sriov_numvfs)" = 0 ] || {
    echo "the card has kept its virtual functions" >&2
    exit 1
}
