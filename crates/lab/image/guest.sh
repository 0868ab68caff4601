#!/bin/sh
# Last touches to the guest's root $1, as mmdebstrap's customize hook.
set -eu
root=$1

# One key for every guest and for every host name, known to all of them: MPI
# logs in from guest to guest without a question. The guests meet only each
# other, on a switch that exists for one test.
mkdir -p "$root/root/.ssh" "$root/run/sshd"
ssh_key=$root/root/.ssh/id_ed25519
rm -f "$root"/etc/ssh/ssh_host_*
chroot "$root" ssh-keygen -q -t ed25519 -N '' -C lab -f /root/.ssh/id_ed25519
cp "$ssh_key" "$root/etc/ssh/ssh_host_ed25519_key"
cp "$ssh_key.pub" "$root/etc/ssh/ssh_host_ed25519_key.pub"
cp "$ssh_key.pub" "$root/root/.ssh/authorized_keys"
printf '* %s\n' "$(cat "$ssh_key.pub")" > "$root/root/.ssh/known_hosts"
chmod 700 "$root/root/.ssh"
cat > "$root/etc/ssh/sshd_config.d/lab.conf" <<'CONF'
PermitRootLogin yes
UsePAM no
UseDNS no
CONF

printf '127.0.0.1 localhost\n10.10.0.1 a\n10.10.0.2 b\n' > "$root/etc/hosts"

# rdma-core's own test suite, which Debian ships half compressed as documentation.
mkdir -p "$root/opt/rdma-core"
cp -r "$root/usr/share/doc/rdma-core/tests" "$root/opt/rdma-core/tests"
gunzip -r "$root/opt/rdma-core/tests"
rm -rf "$root/usr/share/doc/rdma-core"

# Without an udev the loader's cache is all that is left to be found at boot.
chroot "$root" ldconfig
rm -rf "$root/usr/lib/udev/hwdb.d" "$root/etc/udev/hwdb.bin" "$root/usr/lib/udev/hwdb.bin"
