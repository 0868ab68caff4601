"""A target that waits, and an initiator that writes into its memory and reads it back: transfer.py target|initiator."""

import ctypes
import os
import random
import sys
import time

from mooncake.engine import TransferEngine

SIZE = 8 << 20
LIMIT = 20
TOLD = os.environ["SHARED"] + "/transfer"


def memory(content):
    buffer = ctypes.create_string_buffer(content, SIZE)
    return buffer, ctypes.addressof(buffer)


def start(address):
    engine = TransferEngine()
    assert engine.initialize(address, "P2PHANDSHAKE", "rdma", "") == 0
    return engine


def register(engine, address):
    assert engine.register_memory(address, SIZE) == 0


def target():
    engine = start(os.environ["A"])
    _keep, address = memory(bytes(SIZE))
    register(engine, address)
    session = f"{os.environ['A']}:{engine.get_rpc_port()}"
    with open(TOLD + ".new", "w") as told:
        told.write(f"{session} {address}")
    os.rename(TOLD + ".new", TOLD)
    deadline = time.monotonic() + LIMIT
    while os.path.exists(TOLD) and time.monotonic() < deadline:
        time.sleep(0.05)


def initiator():
    deadline = time.monotonic() + LIMIT
    while not os.path.exists(TOLD) and time.monotonic() < deadline:
        time.sleep(0.05)
    with open(TOLD) as told:
        session, remote = told.read().split()
    engine = start(os.environ["B"])
    written, out = memory(random.Random(1).randbytes(SIZE))
    read, back = memory(bytes(SIZE))
    register(engine, out)
    register(engine, back)
    assert engine.transfer_sync_write(session, out, int(remote), SIZE) == 0
    assert engine.transfer_sync_read(session, back, int(remote), SIZE) == 0
    assert written.raw == read.raw, "what was read is not what was written"
    print(f"{SIZE} bytes came back")
    os.remove(TOLD)


{"target": target, "initiator": initiator}[sys.argv[1]]()
