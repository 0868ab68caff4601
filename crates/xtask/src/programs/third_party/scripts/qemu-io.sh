for try in $(seq 50); do iscsi-inq -i iqn.2026-01.lab:client iser://$A:3260/iqn.2026-01.lab:target/1 >/dev/null 2>&1 && break; sleep 0.1; done
disk=driver=iscsi,transport=iser,portal=$A:3260,target=iqn.2026-01.lab:target,lun=1,initiator-name=iqn.2026-01.lab:client
qemu-io --image-opts $disk -c 'write -P 0xa5 4k 4k' -c 'write -P 0x77 2M 64k' -c 'write -P 0x3c 1M 256k' \
  -c 'read -P 0xa5 4k 4k' -c 'read -P 0x77 2M 64k' -c 'read -P 0x3c 1M 256k' -c flush 2>&1 &&
qemu-img dd --image-opts -O raw bs=256k if=$disk of=/tmp/copy &&
cmp /tmp/copy $SHARED/disk && echo the whole disk is the same
