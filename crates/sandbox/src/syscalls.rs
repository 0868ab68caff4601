//! The system calls that remain allowed (seccomp). Any other call is refused with EPERM, and the thread goes on.
//!
//! The whole process gives up the calls that no part of it needs. The threads of the data path, which handle input from
//! strangers, keep only the calls that they need; threads that they start are under the same rules.

use std::collections::BTreeMap;
use std::io;

use libc::{
    AF_INET, AF_INET6, AF_UNIX, O_ACCMODE, O_CREAT, O_RDONLY, O_TRUNC, PROT_EXEC, SOCK_DGRAM,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// Calls, and the reason for all of them.
type Group = (&'static str, &'static [libc::c_long]);

/// Calls that no part of the daemon needs.
const NEVER: &[Group] = &[
    (
        "starts other programs",
        &[libc::SYS_execve, libc::SYS_execveat],
    ),
    (
        "becomes another user, or enters another namespace",
        &[
            libc::SYS_setuid,
            libc::SYS_setgid,
            libc::SYS_setreuid,
            libc::SYS_setregid,
            libc::SYS_setresuid,
            libc::SYS_setresgid,
            libc::SYS_setfsuid,
            libc::SYS_setfsgid,
            libc::SYS_setgroups,
            libc::SYS_setns,
            libc::SYS_unshare,
        ],
    ),
    (
        "changes what is mounted, or looks past it",
        &[
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_fsmount,
            libc::SYS_open_tree,
            libc::SYS_mount_setattr,
            libc::SYS_open_by_handle_at,
        ],
    ),
    (
        "debugs others",
        &[
            libc::SYS_ptrace,
            libc::SYS_kcmp,
            libc::SYS_pidfd_getfd,
            libc::SYS_perf_event_open,
        ],
    ),
    (
        "parts of the kernel with many faults in the past",
        &[
            libc::SYS_bpf,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_keyctl,
        ],
    ),
    (
        "the whole machine",
        &[
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_delete_module,
            libc::SYS_kexec_load,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_swapoff,
            libc::SYS_settimeofday,
            libc::SYS_clock_settime,
            libc::SYS_clock_adjtime,
            libc::SYS_adjtimex,
            libc::SYS_sethostname,
            libc::SYS_setdomainname,
            libc::SYS_acct,
            libc::SYS_quotactl,
            libc::SYS_syslog,
        ],
    ),
];

/// Calls that the threads of the data path need, with any arguments.
const DATA_PATH: &[Group] = &[
    (
        "waits for work and wakes others",
        &[
            libc::SYS_epoll_create1,
            libc::SYS_epoll_ctl,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
            libc::SYS_eventfd2,
            libc::SYS_futex,
            libc::SYS_ppoll,
            libc::SYS_sched_yield,
            libc::SYS_nanosleep,
            libc::SYS_clock_nanosleep,
            libc::SYS_clock_gettime,
            libc::SYS_gettimeofday,
            libc::SYS_restart_syscall,
        ],
    ),
    (
        "descriptors that it has",
        &[
            libc::SYS_read,
            libc::SYS_readv,
            libc::SYS_write,
            libc::SYS_writev,
            libc::SYS_close,
            libc::SYS_dup,
            libc::SYS_dup3,
            libc::SYS_fcntl,
            libc::SYS_fstat,
            libc::SYS_fstatfs,
            libc::SYS_ftruncate,
            libc::SYS_lseek,
            libc::SYS_pipe2,
            libc::SYS_splice,
        ],
    ),
    (
        "sockets that it has",
        &[
            libc::SYS_accept4,
            libc::SYS_bind,
            libc::SYS_connect,
            libc::SYS_getpeername,
            libc::SYS_getsockname,
            libc::SYS_getsockopt,
            libc::SYS_listen,
            libc::SYS_recvfrom,
            libc::SYS_recvmmsg,
            libc::SYS_recvmsg,
            libc::SYS_sendmmsg,
            libc::SYS_sendmsg,
            libc::SYS_sendto,
            libc::SYS_setsockopt,
            libc::SYS_shutdown,
        ],
    ),
    (
        "memory of programs and guests",
        &[
            libc::SYS_memfd_create,
            libc::SYS_pread64,
            libc::SYS_preadv,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pwrite64,
            libc::SYS_pwritev,
        ],
    ),
    (
        "who its clients are, and what they mapped: files of /proc",
        &[
            libc::SYS_newfstatat,
            libc::SYS_pidfd_open,
            libc::SYS_readlinkat,
            libc::SYS_statx,
        ],
    ),
    (
        "its own sockets' files come and go with adapters",
        &[libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_unlinkat],
    ),
    (
        "memory and threads of its own",
        &[
            libc::SYS_brk,
            libc::SYS_exit,
            libc::SYS_exit_group,
            libc::SYS_getpid,
            libc::SYS_getrandom,
            libc::SYS_gettid,
            libc::SYS_getegid,
            libc::SYS_geteuid,
            libc::SYS_getgid,
            libc::SYS_getuid,
            libc::SYS_madvise,
            libc::SYS_mincore,
            libc::SYS_mremap,
            libc::SYS_munmap,
            libc::SYS_prctl,
            libc::SYS_prlimit64,
            libc::SYS_rseq,
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigreturn,
            libc::SYS_sched_getaffinity,
            libc::SYS_sched_setaffinity,
            libc::SYS_set_robust_list,
            libc::SYS_sigaltstack,
            libc::SYS_sysinfo,
            libc::SYS_tgkill,
            libc::SYS_uname,
        ],
    ),
    #[cfg(target_arch = "x86_64")]
    (
        "older names of the same, which the C library uses",
        &[
            libc::SYS_access,
            libc::SYS_chmod,
            libc::SYS_epoll_wait,
            libc::SYS_poll,
            libc::SYS_readlink,
            libc::SYS_stat,
            libc::SYS_time,
            libc::SYS_unlink,
        ],
    ),
];

/// Returns the calls that are allowed with some arguments only: each line is an alternative.
fn with_arguments() -> Vec<(libc::c_long, Vec<Condition>)> {
    let (mmap, mprotect) = (libc::SYS_mmap, libc::SYS_mprotect);
    let dgram = masked(1, SOCKET_KIND, SOCK_DGRAM);
    let writes = (O_ACCMODE | O_CREAT | O_TRUNC) as u64;
    let only_reads = |at| vec![masked(at, writes, O_RDONLY)];
    let mut lines = vec![
        // Memory that was written is never executed.
        (mmap, vec![masked(2, PROT_EXEC as u64, 0)]),
        (mprotect, vec![masked(2, PROT_EXEC as u64, 0)]),
        // Threads, not processes.
        (
            libc::SYS_clone,
            vec![masked(0, libc::CLONE_THREAD as u64, libc::CLONE_THREAD)],
        ),
        // Listeners; the MTU of a tunnel's path; no packets, no connections to services.
        (libc::SYS_socket, vec![equal(0, AF_UNIX as u64)]),
        (libc::SYS_socket, vec![equal(0, AF_INET as u64), dgram]),
        (libc::SYS_socket, vec![equal(0, AF_INET6 as u64), dgram]),
        (libc::SYS_openat, only_reads(2)),
    ];
    #[cfg(target_arch = "x86_64")]
    lines.push((libc::SYS_open, only_reads(1)));
    lines.extend(
        IOCTLS
            .iter()
            .map(|request| (libc::SYS_ioctl, vec![equal(1, *request)])),
    );
    lines
}

/// Mask of a socket's kind, without the flags beside it (linux/net.h, `SOCK_TYPE_MASK`).
const SOCKET_KIND: u64 = 0xf;

/// Requests that tell what a client has mapped (`PROCMAP_QUERY` of linux/fs.h), what it has not read yet, and the state
/// of an interface.
const IOCTLS: &[u64] = &[
    0xc068_6611,
    libc::FIONBIO,
    libc::FIONREAD,
    libc::SIOCGIFFLAGS,
    libc::SIOCGIFHWADDR,
    libc::SIOCGIFINDEX,
    libc::SIOCGIFMTU,
];

/// A condition: number of the argument, mask of its bits, and their value.
type Condition = (u8, u64, u64);

fn masked(argument: u8, mask: u64, value: i32) -> Condition {
    (argument, mask, value as u64)
}

/// Makes a condition on the lower half of an argument, which is all that the kernel looks at.
fn equal(argument: u8, value: u64) -> Condition {
    (argument, u64::from(u32::MAX), value)
}

/// Gives up the calls that no part of the daemon needs, in this thread and all that it starts.
pub(super) fn confine_process() -> io::Result<()> {
    let rules = calls(NEVER).map(|call| (call, Vec::new())).collect();
    apply(rules, SeccompAction::Allow, refuse(libc::EPERM))
}

/// Leaves this thread only the calls that the data path needs.
pub(super) fn confine_data_path() -> io::Result<()> {
    let mut rules: Rules = calls(DATA_PATH).map(|call| (call, Vec::new())).collect();
    for (call, conditions) in with_arguments() {
        rules.entry(call).or_default().push(rule(&conditions)?);
    }
    // The flags of this call are in memory, which no filter can see: the C library then uses the call that has its
    // flags in a register.
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    apply(clone3, SeccompAction::Allow, refuse(libc::ENOSYS))?;
    rules.insert(libc::SYS_clone3, Vec::new());
    apply(rules, refuse(libc::EPERM), SeccompAction::Allow)
}

type Rules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

fn calls(groups: &'static [Group]) -> impl Iterator<Item = libc::c_long> {
    groups.iter().flat_map(|(_, calls)| calls.iter().copied())
}

fn refuse(errno: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(errno as u32)
}

fn rule(conditions: &[Condition]) -> io::Result<SeccompRule> {
    let conditions = conditions.iter().map(|(argument, mask, value)| {
        let operation = SeccompCmpOp::MaskedEq(*mask);
        SeccompCondition::new(*argument, SeccompCmpArgLen::Qword, operation, *value)
    });
    let conditions = conditions
        .collect::<Result<_, _>>()
        .map_err(io::Error::other)?;
    SeccompRule::new(conditions).map_err(io::Error::other)
}

fn apply(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> io::Result<()> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, otherwise, matched, arch).map_err(io::Error::other)?;
    let program = BpfProgram::try_from(filter).map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
