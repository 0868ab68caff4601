# Offers a RAM disk by NVMe over RDMA. Begun again, it leaves what it has made.
set -eu
modprobe -a nvmet-rdma
modprobe brd rd_nr=1 rd_size=32768
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/nvmet
[ ! -e ports/1/subsystems/lab ] || exit 0
mkdir -p subsystems/lab/namespaces/1 ports/1
echo 1 > subsystems/lab/attr_allow_any_host
echo /dev/ram0 > subsystems/lab/namespaces/1/device_path
echo 1 > subsystems/lab/namespaces/1/enable
echo rdma > ports/1/addr_trtype
echo ipv4 > ports/1/addr_adrfam
echo "$A" > ports/1/addr_traddr
echo 4420 > ports/1/addr_trsvcid
ln -s "$PWD/subsystems/lab" ports/1/subsystems/lab
