"""Beside rdma-core's tests: what a program's own memory, children and files may do to it."""
import ctypes
import errno
import mmap
import os
import subprocess

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError

import tests.utils as u
from tests.base import RCResources, RDMATestCase

try:
    from pyverbs.libibverbs_enums import ibv_access_flags as access_flags, ibv_wr_opcode as opcodes
except ImportError:  # older rdma-core has all names in one module
    import pyverbs.enums as access_flags
    import pyverbs.enums as opcodes

ACCESS = access_flags.IBV_ACCESS_LOCAL_WRITE | access_flags.IBV_ACCESS_REMOTE_WRITE
PAGE = mmap.PAGESIZE

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def mapped(rights, flags, fd=-1, length=PAGE):
    at = libc.mmap(None, length, rights, flags, fd, 0)
    assert at != ctypes.c_void_p(-1).value
    return at


def bytes_written():
    """By system calls of this process."""
    with open("/proc/self/io") as counters:
        return int(dict(line.split(": ") for line in counters)["wchar"])


class Resources(RCResources):
    """Its region is private memory."""

    def create_mr(self):
        self.mr = MR(self.pd, self.msg_size, ACCESS)

    def create_qp_attr(self):
        attributes = super().create_qp_attr()
        attributes.qp_access_flags = ACCESS
        return attributes


class SharedResources(Resources):
    """Its region is a file in memory that is mapped shared."""

    def create_mr(self):
        self.file = os.memfd_create("test")
        os.ftruncate(self.file, 2 * PAGE)
        both = mmap.PROT_READ | mmap.PROT_WRITE
        self.at = mapped(both, mmap.MAP_SHARED, self.file, 2 * PAGE)
        self.mr = MR(self.pd, self.msg_size, ACCESS, address=self.at + PAGE - 100)


class OwnFiles(RDMATestCase):
    def test_a_program_without_verbs_reads_what_sysfs_would_have(self):
        path = f"/sys/class/infiniband/{self.dev_info['dev_name']}/ports/1/pkeys/0"
        self.assertEqual(subprocess.check_output(["cat", path]), b"0xffff\n")


class OwnMemory(RDMATestCase):
    def setUp(self):
        super().setUp()
        self.iters = 10

    def create_players(self, resources):
        self.client, self.server = (resources(**self.dev_info) for _ in range(2))
        for one, other in ((self.client, self.server), (self.server, self.client)):
            one.pre_run(other.psns, other.qps_num)
            one.rkey, one.raddr = other.mr.rkey, other.mr.buf
            one.remote_addr = one.raddr  # its name before rdma-core 57
        self.traffic_args = {
            "client": self.client,
            "server": self.server,
            "iters": self.iters,
            "gid_idx": self.gid_index,
            "port": self.ib_port,
        }

    def code(self, call):
        """The errno that a call fails with; 0 if it does not."""
        try:
            call()
        except PyverbsRDMAError as ex:
            return ex.error_code
        return 0

    def test_a_child_has_none_of_its_parent_s_objects(self):
        self.create_players(Resources)
        u.rdma_traffic(**self.traffic_args, send_op=opcodes.IBV_WR_RDMA_WRITE)
        child = os.fork()
        if child == 0:
            # No destructors: the objects are the parent's.
            os._exit(self.what_a_child_finds())
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        u.rdma_traffic(**self.traffic_args, send_op=opcodes.IBV_WR_RDMA_WRITE)

    def what_a_child_finds(self):
        """0 if all is as it should be, else which of these was not."""
        player = self.client
        request = u.get_send_elements(player, False, opcodes.IBV_WR_RDMA_WRITE)[0]
        refused = [
            lambda: PD(player.ctx),
            lambda: CQ(player.ctx, 10),
            lambda: MR(player.pd, 100, ACCESS),
            lambda: player.qp.post_send(request),
            lambda: player.cq.poll(),
            lambda: player.ctx.query_device(),
            lambda: player.mr.close(),
        ]
        for number, call in enumerate(refused, 1):
            if self.code(call) == 0:
                return number
        own = Context(name=self.dev_name)
        domain = PD(own)
        region = MR(domain, 100, ACCESS)
        return 0 if region.lkey else 100

    def test_read_only_memory_is_not_registered_for_writing(self):
        self.create_players(Resources)
        at = mapped(mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for access in (access_flags.IBV_ACCESS_LOCAL_WRITE, ACCESS):
            register = lambda: MR(self.client.pd, 100, access, address=at)
            self.assertEqual(self.code(register), errno.EFAULT)
        readable = MR(self.client.pd, 100, access_flags.IBV_ACCESS_REMOTE_READ, address=at)
        readable.close()

    def test_a_shared_file_is_reached_also_when_its_mapping_is_gone(self):
        self.create_players(SharedResources)
        u.rdma_traffic(**self.traffic_args, send_op=opcodes.IBV_WR_RDMA_WRITE)
        server, size = self.server, self.client.msg_size
        os.pwrite(server.file, b"-" * size, PAGE - 100)
        libc.munmap(server.at, 2 * PAGE)
        request = u.get_send_elements(self.client, False, opcodes.IBV_WR_RDMA_WRITE)[0]
        u.send(self.client, request, opcodes.IBV_WR_RDMA_WRITE)
        u.poll_cq(self.client.cq)
        self.assertEqual(os.pread(server.file, size, PAGE - 100), b"c" * size)

    def test_who_carries_writes_out(self):
        """The daemon, unless this process was told to reach its peers by itself."""
        self.create_players(Resources)
        before = bytes_written()
        u.rdma_traffic(**self.traffic_args, send_op=opcodes.IBV_WR_RDMA_WRITE)
        grown = bytes_written() - before
        own = os.environ.get("VRDMA_FAST_LOCAL") == "1"
        self.assertEqual(grown >= 2 * self.iters * self.client.msg_size, own)
