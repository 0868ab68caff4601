"""Two processes that meet by TCP and move data by the PyPI package `ibverbs`: verbs.py server|client."""

import ctypes
import os
import random
import socket
import struct
import sys
import time

import ibverbs as ib

SIZE = 1 << 20
COUNTER = 8
PORT = 18700
GID_INDEX = 1
LIMIT = 20
ACCESS = (
    ib.AccessFlags.LOCAL_WRITE
    | ib.AccessFlags.REMOTE_WRITE
    | ib.AccessFlags.REMOTE_READ
    | ib.AccessFlags.REMOTE_ATOMIC
)
DATA = random.Random(2).randbytes(SIZE)


class End:
    """A queue pair that is connected to the peer's, and memory: data, then a counter."""

    def __init__(self, peer):
        self.peer = peer
        context = ib.get_device_list()[0].open()
        self.cq = context.create_cq(16)
        pd = context.alloc_pd()
        self.buffer = ctypes.create_string_buffer(SIZE + COUNTER)
        self.mr = pd.reg_mr(ctypes.addressof(self.buffer), SIZE + COUNTER, ACCESS)
        self.qp = pd.create_qp(ib.QPInitAttr(send_cq=self.cq, recv_cq=self.cq, qp_type=ib.QPType.RC))
        local = ib.local_qp_info(self.qp, context.query_port(1), context.query_gid(1, GID_INDEX), port=1)
        place = struct.pack("!QI", self.mr.addr, self.mr.rkey)
        self.peer.sendall(local.to_bytes() + place)
        told = self.take(len(local.to_bytes() + place))
        remote, place = told[: -len(place)], told[-len(place) :]
        self.remote, self.rkey = struct.unpack("!QI", place)
        ib.connect_rc(self.qp, ib.QPInfo.from_bytes(remote), port=1, sgid_index=GID_INDEX, access=ACCESS)

    def take(self, count):
        data = b""
        while len(data) < count:
            more = self.peer.recv(count - len(data))
            assert more, "the peer is gone"
            data += more
        return data

    def meet(self):
        self.peer.sendall(b"!")
        self.take(1)

    def complete(self):
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            for completion in self.cq.poll(1):
                completion.raise_for_status()
                return
        sys.exit("nothing completed")

    def post(self, opcode, offset=0, length=SIZE, **more):
        element = ib.SGE(self.mr, length, offset=offset)
        request = ib.SendWR(
            sg_list=[element],
            opcode=opcode,
            send_flags=ib.SendFlags.SIGNALED,
            remote_addr=self.remote + offset,
            rkey=self.rkey,
            **more,
        )
        self.qp.post_send(request)
        self.complete()

    def data(self):
        return self.buffer.raw[:SIZE]


def server():
    listener = socket.create_server((os.environ["A"], PORT))
    peer, _ = listener.accept()
    end = End(peer)
    end.qp.post_recv(ib.RecvWR(sg_list=[ib.SGE(end.mr, SIZE)]))
    end.meet()
    end.complete()
    assert end.data() == DATA[::-1], "SEND brought something else"
    end.meet()
    end.meet()
    assert end.data() == DATA, "WRITE brought something else"
    (counter,) = struct.unpack("=Q", end.buffer.raw[SIZE:])
    assert counter == 42, counter
    end.meet()


def client():
    end = End(socket.create_connection((os.environ["A"], PORT)))
    end.meet()
    end.buffer[:SIZE] = DATA[::-1]
    end.post(ib.WROpcode.SEND)
    end.meet()
    end.buffer[:SIZE] = DATA
    end.post(ib.WROpcode.RDMA_WRITE)
    end.buffer[:SIZE] = bytes(SIZE)
    end.post(ib.WROpcode.RDMA_READ)
    assert end.data() == DATA, "READ brought something else"
    end.post(ib.WROpcode.ATOMIC_FETCH_AND_ADD, offset=SIZE, length=COUNTER, compare_add=42)
    end.meet()
    end.meet()
    print("SEND, WRITE, READ and an atomic are right")


{"server": server, "client": client}[sys.argv[1]]()
