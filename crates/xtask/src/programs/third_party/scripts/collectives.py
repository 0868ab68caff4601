"""Collective operations of MPI, whose results each process knows beforehand."""

import sys
from array import array

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
SIZE = WORLD.Get_size()
# Eager and rendezvous, aligned and not.
COUNTS = (1, 7, 1000, 8191, 100_000)
ROUNDS = 5


def numbers(owner, count, salt):
    """What a process gives."""
    return array("q", (owner * 1_000_003 + salt * 7 + at for at in range(count)))


def check(what, got, expected):
    if got != expected:
        wrong = [at for at in range(len(expected)) if got[at] != expected[at]]
        first = wrong[0]
        print(
            f"rank {RANK}: {what} is wrong: {len(wrong)} of {len(expected)} numbers, from {first} to {wrong[-1]};"
            f" the first is {got[first]:#x} and should be {expected[first]:#x},"
            f" its address is {got.buffer_info()[0] + 8 * first:#x}",
            flush=True,
        )
        WORLD.Abort(1)


def one_round(count, salt):
    own = numbers(RANK, count, salt)
    all_of_them = [numbers(rank, count, salt) for rank in range(SIZE)]
    total = array("q", map(sum, zip(*all_of_them)))

    result = array("q", bytes(8 * count))
    WORLD.Allreduce(own, result, MPI.SUM)
    check("allreduce", result, total)

    for root in range(SIZE):
        given = numbers(root, count, salt) if RANK == root else array("q", bytes(8 * count))
        WORLD.Bcast(given, root)
        check("broadcast", given, all_of_them[root])

    gathered = array("q", bytes(8 * count * SIZE))
    WORLD.Allgather(own, gathered)
    check("allgather", gathered, sum(all_of_them, array("q")))

    mine = sum((numbers(RANK, count, salt + to) for to in range(SIZE)), array("q"))
    theirs = array("q", bytes(8 * count * SIZE))
    WORLD.Alltoall(mine, theirs)
    expected = (numbers(rank, count, salt + RANK) for rank in range(SIZE))
    check("alltoall", theirs, sum(expected, array("q")))

    part = array("q", bytes(8 * count))
    WORLD.Reduce_scatter_block(gathered, part, MPI.MAX)
    check("reduce-scatter", part, all_of_them[RANK])


for salt in range(ROUNDS):
    for count in COUNTS:
        one_round(count, salt)
WORLD.Barrier()
if RANK == 0:
    library = MPI.Get_library_version().splitlines()[0].strip("\0")
    print(f"{SIZE} ranks of {library}: all collectives are right", flush=True)
sys.stdout.flush()
