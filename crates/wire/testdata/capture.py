"""Drives rxe through every operation of RC, UC and UD at path MTU 256, and through every refusal.

In two guests joined by one Ethernet, `rxe0` on each:

    server$ python3 capture.py GID_INDEX
    client$ python3 capture.py GID_INDEX SERVER_ADDRESS [CASE ...]

Before each case the client sends a datagram with its name to port 9, by which a capture of the
whole run is cut into cases.
"""

import json
import socket
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

RC, UC, UD = e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD
SEND, SEND_IMM, SEND_INV = e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM, e.IBV_WR_SEND_WITH_INV
WRITE, WRITE_IMM, READ = e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_WRITE_WITH_IMM, e.IBV_WR_RDMA_READ
SWAP, ADD = e.IBV_WR_ATOMIC_CMP_AND_SWP, e.IBV_WR_ATOMIC_FETCH_AND_ADD

ACCESS = (
    e.IBV_ACCESS_LOCAL_WRITE
    | e.IBV_ACCESS_REMOTE_WRITE
    | e.IBV_ACCESS_REMOTE_READ
    | e.IBV_ACCESS_REMOTE_ATOMIC
)
IMM, KEY, QKEY = 0x11223344, 0x1100, 0x1234
SIGNALED, SOLICITED = e.IBV_SEND_SIGNALED, e.IBV_SEND_SIGNALED | e.IBV_SEND_SOLICITED
LONG = 700  # first, middle and last

# name: kind, work requests (operation, bytes, immediate or key), how it differs
CASES = {
    "rc-send": (RC, [(SEND, 5), (SEND, 0), (SEND_IMM, 6, IMM), (SEND, LONG), (SEND_IMM, LONG, IMM)], {}),
    "rc-write": (RC, [(WRITE, 7), (WRITE_IMM, 0, IMM), (WRITE, LONG), (WRITE_IMM, LONG, IMM)], {}),
    "rc-read": (RC, [(READ, 9), (READ, LONG)], {}),
    "rc-atomic": (RC, [(SWAP, 8), (ADD, 8)], {}),
    "rc-wrap": (RC, [(SEND, LONG)], {"psn": 0xFFFFFE}),
    "rc-send-inv": (RC, [(SEND_INV, 10, KEY)], {}),
    "rc-send-inv-long": (RC, [(SEND_INV, LONG, KEY)], {}),
    "rc-nak-key": (RC, [(WRITE, 8)], {"bend_key": 0x55}),
    "rc-nak-address": (RC, [(READ, 8)], {"bend_address": 1 << 20}),
    "rc-nak-invalid": (RC, [(WRITE, 8)], {"access": e.IBV_ACCESS_LOCAL_WRITE}),
    "rc-nak-sequence": (RC, [(SEND, 8)], {"behind": 5}),
    "rc-nak-rnr": (RC, [(SEND, 8)], {"receives": 0}),
    "rc-nak-short-receive": (RC, [(SEND, LONG)], {"receive_size": 64}),
    "rc-nak-operational": (RC, [(SEND, 8)], {"receive_key": 0x9955}),
    "uc": (
        UC,
        [(SEND, 5), (SEND_IMM, 6, IMM), (SEND, LONG), (SEND_IMM, LONG, IMM)]
        + [(WRITE, 7), (WRITE_IMM, 8, IMM), (WRITE, LONG), (WRITE_IMM, LONG, IMM)],
        {},
    ),
    "ud": (UD, [(SEND, 5), (SEND_IMM, 6, IMM)], {}),
}


class Side:
    """One of the two programs: its verbs objects and its line to the other."""

    def __init__(self, gid_index, server):
        self.gid_index, self.server = gid_index, server
        if server:
            line = socket.create_connection((server, 5001), 10)
        else:
            line, _ = socket.create_server(("", 5001)).accept()
        self.line = line.makefile("rw")
        self.context = Context(name="rxe0")
        self.pd, self.cq = PD(self.context), CQ(self.context, 64)
        self.mr = MR(self.pd, 4096, ACCESS)
        self.mr.write(bytes(range(256)) * 16, 4096)

    def swap(self, mine):
        """Tells the other side and hears from it."""
        self.line.write(json.dumps(mine) + "\n")
        self.line.flush()
        return json.loads(self.line.readline())

    def mark(self, label):
        if self.server:
            port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            port.sendto(b"MARK " + label.encode(), (self.server, 9))

    def introduce(self, qp):
        gid = str(self.context.query_gid(1, self.gid_index))
        return self.swap({"qpn": qp.qp_num, "gid": gid, "address": self.mr.buf, "key": self.mr.rkey})

    def route(self, peer, traffic_class):
        route = GlobalRoute(
            dgid=GID(peer["gid"]),
            sgid_index=self.gid_index,
            hop_limit=64,
            traffic_class=traffic_class,
            flow_label=0x12345,
        )
        return AHAttr(port_num=1, is_global=True, gr=route)

    def queue_pair(self, kind, psn=0x100, behind=0, access=ACCESS):
        """A queue pair ready to send, and what the other side said of its own."""
        caps = QPCap(max_send_wr=16, max_recv_wr=16)
        init = QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, cap=caps, sq_sig_all=0)
        attr = QPAttr(port_num=1)
        attr.sq_psn = psn
        if kind == UD:
            attr.qkey = QKEY
            qp = QP(self.pd, init, attr)
            return qp, self.introduce(qp)
        qp = QP(self.pd, init)
        peer = self.introduce(qp)
        attr.qp_access_flags = access
        qp.to_init(attr)
        attr.ah_attr = self.route(peer, traffic_class=0x40)
        attr.path_mtu, attr.dest_qp_num = e.IBV_MTU_256, peer["qpn"]
        attr.rq_psn = (psn - behind) & 0xFFFFFF
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 4
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 7, 14, 2, 1
        qp.to_rts(attr)
        return qp, peer

    def request(self, kind, peer, operation, size, extra, key, address):
        flags = SOLICITED if extra == IMM else SIGNALED
        wr = SendWR(opcode=operation, sg=[SGE(self.mr.buf, size, self.mr.lkey)], num_sge=1, send_flags=flags)
        if extra is not None:
            wr.imm_data = extra
        if operation == SWAP:
            wr.set_wr_atomic(key, address, 0x0706050403020100, 0x1122334455667788)
        elif operation == ADD:
            wr.set_wr_atomic(key, address + 8, 5, 0)
        elif operation in (WRITE, WRITE_IMM, READ):
            wr.set_wr_rdma(key, address)
        elif kind == UD:
            wr.set_wr_ud(AH(self.pd, attr=self.route(peer, traffic_class=0x42)), peer["qpn"], QKEY)
        return wr

    def completion(self):
        """Status of the next completion."""
        deadline = time.time() + 4
        while time.time() < deadline:
            count, completions = self.cq.poll(1)
            if count:
                return completions[0].status
            time.sleep(0.01)
        return "silence"

    def run(self, label, kind, requests, receives=8, receive_size=1024, receive_key=None,
            bend_key=0, bend_address=0, **how):
        qp, peer = self.queue_pair(kind, **how)
        for _ in range(0 if self.server else receives):
            key = self.mr.lkey if receive_key is None else receive_key
            qp.post_recv(RecvWR(sg=[SGE(self.mr.buf + 2048, receive_size, key)], num_sge=1))
        self.swap("ready")
        self.mark(label)
        statuses = []
        for operation, size, *extra in requests if self.server else []:
            extra = extra[0] if extra else None
            key, address = peer["key"] ^ bend_key, peer["address"] + bend_address
            qp.post_send(self.request(kind, peer, operation, size, extra, key, address))
            statuses.append(self.completion())
        print(label, self.swap(statuses) or statuses, flush=True)
        qp.close()
        while self.cq.poll(1)[0]:
            pass
        self.mark("idle")


def main():
    server = sys.argv[2] if len(sys.argv) > 2 else ""
    side = Side(int(sys.argv[1]), server)
    chosen = side.swap(sys.argv[3:]) or sys.argv[3:]
    for label in chosen or CASES:
        kind, requests, how = CASES[label]
        side.run(label, kind, requests, **how)


main()
