# A libvirt for one domain, as root of a mount and a PID namespace of its own. $1 is a folder for its files, $2 the
# domain's name, $3 its XML, the rest is for `virsh create`, after which there is a file `created`. It ends with the domain.
folder=$1 name=$2 domain=$3
shift 3

# Nothing of the host's libvirt is seen or changed.
for part in /etc/libvirt /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt; do
  mkdir -p "$part"
  mount -t tmpfs libvirt "$part"
done
# Debian's libvirt wants to know its usual user, even if QEMU runs as another one.
for table in passwd group; do
  cp "/etc/$table" "$folder/$table"
done
getent passwd libvirt-qemu >/dev/null || echo 'libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin' >>"$folder/passwd"
getent group libvirt-qemu >/dev/null || echo 'libvirt-qemu:x:64055:' >>"$folder/group"
getent group kvm >/dev/null || echo 'kvm:x:64056:' >>"$folder/group"
for table in passwd group; do
  mount --bind "$folder/$table" "/etc/$table"
done

cat >/etc/libvirt/qemu.conf <<'CONF'
user = "root"
group = "root"
security_driver = "none"
dynamic_ownership = 0
remember_owner = 0
cgroup_controllers = [ ]
namespaces = [ ]
stdio_handler = "file"
CONF
cat >/etc/libvirt/libvirtd.conf <<CONF
unix_sock_dir = "$folder"
auth_unix_rw = "none"
CONF

mkdir /etc/libvirt/hooks /etc/libvirt/hooks/qemu.d
install -m 755 "$folder/hook" /etc/libvirt/hooks/qemu.d/vrdma

libvirtd --pid-file /run/libvirt/libvirtd.pid >"$folder/libvirtd.log" 2>&1 &
daemon=$!
connection="qemu+unix:///system?socket=$folder/libvirt-sock"
until virsh --quiet --connect "$connection" uri >/dev/null 2>&1; do
  kill -0 "$daemon" || { cat "$folder/libvirtd.log"; exit 1; }
  sleep 0.1
done
virsh --quiet --connect "$connection" create "$@" "$domain" || { cat /var/log/libvirt/qemu/*.log; exit 1; }
touch "$folder/created"
tail --pid="$(cat /run/libvirt/qemu/$name.pid)" --sleep-interval=0.2 -f /dev/null
