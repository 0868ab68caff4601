#!/bin/sh
# Compiles the stock vmw_pvrdma against Debian's kernel and leaves in $1/kernel.tar:
#   boot/vmlinuz               the kernel
#   boot/early/                a busybox and the modules that mount the root, as 00-NAME.ko
#   usr/lib/modules/VERSION/   the modules a guest can use, with their index: those of its own devices and of
#                              the cards that hosts lend
# Runs as mmdebstrap's extract hook: nothing in $1 is configured, so what
# maintainer scripts would do is done here where needed.
set -eu
root=$1
version=$(cd "$root/usr/lib/modules" && echo *)
driver=drivers/infiniband/hw/vmw_pvrdma

ln -sf mawk "$root/usr/bin/awk"
mkdir -p "$root/build" "$root/out/boot/early" "$root/out/usr/lib"

chroot "$root" sh -eu -c "
tar -C /build --strip-components=1 -xf /usr/src/linux-source-6.12.tar.xz linux-source-6.12/$driver
make -s -j\$(nproc) -C /usr/src/linux-headers-$version M=/build/$driver \
    CONFIG_INFINIBAND_VMWARE_PVRDMA=m modules
strip --strip-debug /build/$driver/vmw_pvrdma.ko
"

modules=$root/usr/lib/modules/$version
# What drives a card of the host's that is lent to a guest, and what it is built on.
lent="igb igbvf iavf mlx4_en mlx4_ib mlx5_ib"
chroot "$root" depmod "$version"
spared=$(for name in $lent; do
    chroot "$root" modprobe -S "$version" --show-depends "$name" | sed -n 's/^insmod //p'
done | sort -u)
(cd "$root" && tar -cf build/spared.tar $(printf '.%s ' $spared))

for unused in sound drivers/gpu drivers/media drivers/staging drivers/iio drivers/hid \
    drivers/input drivers/usb drivers/hwmon drivers/mtd drivers/platform drivers/mfd \
    drivers/net/wireless drivers/net/ethernet drivers/net/can drivers/net/usb \
    drivers/bluetooth drivers/power drivers/i2c drivers/leds drivers/comedi \
    drivers/infiniband/hw drivers/thunderbolt drivers/atm drivers/isdn drivers/rtc \
    drivers/gnss drivers/mmc drivers/edac drivers/firewire drivers/message drivers/ata \
    net/mac80211 net/wireless net/bluetooth net/nfc net/can net/ieee802154 net/mac802154; do
    rm -rf "$modules/kernel/$unused"
done
tar -C "$root" -xf "$root/build/spared.tar"
mkdir -p "$modules/updates"
cp "$root/build/$driver/vmw_pvrdma.ko" "$modules/updates/"
rm -f "$modules/build" "$modules/source"
# Only modules that were removed above are missed, and their users with them.
chroot "$root" depmod "$version" 2>/dev/null

cp "$root/boot/vmlinuz-$version" "$root/out/boot/vmlinuz"
cp "$root/usr/bin/busybox" "$root/out/boot/early/busybox"
order=10
for name in virtio_blk ext4 overlay; do
    chroot "$root" modprobe -S "$version" --show-depends "$name" | sed -n 's/^insmod //p'
done | awk '!seen[$1]++ { print $1 }' | while read -r path; do
    xz -dc "$root$path" > "$root/out/boot/early/$order-$(basename "$path" .xz)"
    order=$((order + 1))
done
mv "$root/usr/lib/modules" "$root/out/usr/lib/modules"
tar -C "$root/out" --owner=0 --group=0 -cf "$root/kernel.tar" .
