name='-i iqn.2026-01.lab:client'
disk=iser://$A:3260/iqn.2026-01.lab:target/1
for try in $(seq 50); do iscsi-inq $name $disk >/dev/null 2>&1 && break; sleep 0.1; done
iscsi-readcapacity16 $name $disk &&
iscsi-test-cu $name --dataloss -t ALL.Write10.Simple $disk 2>&1 &&
iscsi-test-cu $name --dataloss -t ALL.Read16.Simple $disk 2>&1 &&
iscsi-perf -t 2 $name $disk 2>&1 | tr '\r' '\n'
