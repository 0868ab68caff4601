//! How our own programs are started: `vrdma-mpi` by mpirun, `vrdma-cp` as server and client.
//!
//! Ranks of processes are all started on side b, the first half on the adapter of side a. Only they load our library in
//! front of theirs, not mpirun. Each finds its adapter itself: mpirun of Open MPI 5 crashes when its command has two
//! parts. Guests start their remote ranks by ssh.
//!
//! Between adapters UCX uses only verbs. Ranks of one guest share its memory in cells that are about placing ranks, as
//! MPI does by itself.

use vrdma_lab::pair::guest_name;

use crate::cell::{Endpoint, Setting, Transport, Work};
use crate::plan::Scale;
use crate::programs::Own;
use crate::tool::cavity::words;
use crate::tool::{NetPipe, Plain, Reads, Tool};

/// UCX, and none of Open MPI's own transports that would be faster, such as shared memory for one-sided messages.
const UCX: &str = "--mca pml ucx --mca osc ucx --mca btl ^openib \
     -x UCX_WARN_UNUSED_ENV_VARS=n";

const VERBS: &str = "-x UCX_NET_DEVICES=$DEV:1 -x UCX_TLS=rc_verbs,ud_verbs:aux,self";

/// Over rxe UCX's datagrams are never acknowledged, so its ranks find each other by TCP.
const VERBS_AFTER_TCP: &str = "-x UCX_TLS=rc_verbs,tcp:aux,self";

/// Ranks of one guest communicate through its memory. Where several share a slow one, UCX's datagrams lose count of
/// what was acknowledged ("acked_psn must be smaller than current_psn").
const VERBS_AND_MEMORY: &str = "-x UCX_TLS=rc_verbs,tcp:aux,self,posix";

const TCP: &str = "--mca pml ob1 --mca btl tcp,self";

/// With more ranks than processors, waiting ranks must yield.
const MPIRUN: &str = "mpirun --allow-run-as-root --mca mpi_yield_when_idle 1";

/// Option on this host, which may have fewer processors.
const HERE: &str = "--oversubscribe";

/// Options that place as many ranks on each guest as the number after its name: told to oversubscribe, mpirun would
/// place them anywhere.
const ON_GUESTS: &str = "--map-by slot --bind-to none";

/// A test of `vrdma-mpi` with `half` ranks on each of two sides; its arguments in a full run and in a short one.
pub(super) fn mpi(setting: Setting, half: u32, test: [&str; 2], seconds: u64) -> Work {
    let ucx = carrier(setting.transport, VERBS);
    let client = test.map(|test| launch(setting, half, &ucx, &of_ours(test)));
    program(setting, client, seconds)
}

/// The same with a rank on every processor of the setting.
pub(super) fn spread(setting: Setting, test: [&str; 2], seconds: u64) -> Work {
    let ways = match setting.endpoint {
        Endpoint::Vm if setting.processors > 1 => VERBS_AND_MEMORY,
        _ => VERBS,
    };
    let carrier = carrier(setting.transport, ways);
    let client =
        test.map(|test| launch(setting, setting.processors.into(), &carrier, &of_ours(test)));
    program(setting, client, seconds)
}

fn program(setting: Setting, client: [String; 2], seconds: u64) -> Work {
    let tool = Plain {
        own: Own::Mpi,
        reads: Reads::Lines,
        server: String::new(),
        client,
        needs: ("mpirun", "openmpi-bin"),
        seconds: 3,
        limit: seconds * 10,
    };
    Work::Run(setting, Tool::Plain(tool))
}

/// Options of mpirun for a transport; `ways` are those of ranks on our adapters.
fn carrier(transport: Transport, ways: &str) -> String {
    match transport {
        Transport::Tcp => TCP.to_owned(),
        Transport::Rxe => format!("{UCX} {VERBS_AFTER_TCP}"),
        _ => format!("{UCX} {ways}"),
    }
}

fn of_ours(test: &str) -> String {
    format!("$PROGRAMS/{} {test}", Own::Mpi.name())
}

fn launch(setting: Setting, on_a_node: u32, carrier: &str, program: &str) -> String {
    match setting.endpoint {
        Endpoint::Vm => {
            // mpirun is on the last guest, and takes its own guest as the first in any case.
            let nodes = (1..=setting.nodes).rev().map(guest_name);
            let hosts: Vec<String> = nodes.map(|node| format!("{node}:{on_a_node}")).collect();
            let (hosts, ranks) = (hosts.join(","), on_a_node * u32::from(setting.nodes));
            format!("{MPIRUN} {ON_GUESTS} -np {ranks} -H {hosts} {carrier} {program}")
        }
        Endpoint::Process | Endpoint::Container => {
            let library = match setting.transport {
                Transport::Tcp => "",
                _ => " LD_PRELOAD=$LIBRARY",
            };
            let ranks = 2 * on_a_node;
            format!(
                "export LIBRARY=$LD_PRELOAD PROGRAMS SIDE_A SIDE_B TENANT GATE; unset LD_PRELOAD; \
                 {MPIRUN} {HERE} -np {ranks} {carrier} sh -c '[ $OMPI_COMM_WORLD_RANK -lt {on_a_node} ] && side=$SIDE_A || side=$SIDE_B; \
                 exec env VRDMA_ADAPTER=$side{library} {program}'"
            )
        }
    }
}

/// NetPIPE between two ranks, up to a size and with a number of repetitions each, only with powers of two as sizes.
pub(super) fn netpipe(setting: Setting, what: NetPipe) -> Work {
    let carrier = carrier(setting.transport, VERBS);
    let run = |(upto, times)| {
        let program = format!("NPopenmpi -p 0 -u {upto} -n {times} -o /dev/null");
        launch(setting, 1, &carrier, &program)
    };
    let tool = Plain {
        own: Own::Mpi,
        reads: Reads::NetPipe(what),
        server: String::new(),
        client: [(1 << 22, 100), (1 << 20, 20)].map(run),
        needs: ("NPopenmpi", "netpipe-openmpi"),
        seconds: 3,
        limit: 600,
    };
    Work::Run(setting, Tool::Plain(tool))
}

/// OpenFOAM's cavity on two ranks, on different nodes; guests get this host's OpenFOAM.
pub(super) fn cavity(setting: Setting) -> Work {
    let carrier = carrier(setting.transport, VERBS);
    let (before, hosts) = match (setting.endpoint, setting.transport) {
        (Endpoint::Vm, _) => (
            "export OTHERS=a; ",
            format!("{ON_GUESTS} -H a:1,b:1 -x WM_PROJECT_DIR"),
        ),
        (_, Transport::Tcp) => ("", HERE.to_owned()),
        _ => ("export ADAPTERS='a b'; ", HERE.to_owned()),
    };
    let name = Own::Cavity.name();
    let run = |scale| {
        let words = words(2, scale);
        format!(
            "export LIBRARY=$LD_PRELOAD; unset LD_PRELOAD; {before}$PROGRAMS/{name} {words} \
             {MPIRUN} -np 2 {hosts} {carrier}"
        )
    };
    let tool = Plain {
        own: Own::Cavity,
        reads: Reads::Cavity("np2"),
        server: String::new(),
        client: [Scale::Full, Scale::Short].map(run),
        needs: ("icoFoam", "openfoam"),
        seconds: 10,
        limit: 600,
    };
    Work::Run(setting, Tool::Plain(tool))
}

/// A file of a pattern by `vrdma-cp`, with sizes for a full run and for a short one.
pub(super) fn cp(setting: Setting, bytes: [&str; 2]) -> Work {
    let name = Own::Cp.name();
    let tool = Plain {
        own: Own::Cp,
        reads: Reads::Seconds("1GB"),
        server: format!("$PROGRAMS/{name} --discard --once"),
        client: bytes.map(|bytes| format!("$PROGRAMS/{name} --pattern {bytes} --json $A")),
        needs: ("sh", "dash"),
        seconds: 3,
        limit: 180,
    };
    Work::Run(setting, Tool::Plain(tool))
}

/// The same by each of several tenants, all at once.
pub(super) fn cp_together(setting: Setting, bytes: [&str; 2]) -> Work {
    let name = Own::Cp.name();
    let figure = r#"sed -n 's/.*"seconds":\([0-9.]*\).*/figure 1GB.'$TENANT' \1 s/p'"#;
    let client = bytes.map(|bytes| {
        format!(
            "export VRDMA_ADAPTER=$SIDE_B; touch $GATE.ready; until [ -e $GATE.go ]; do sleep 0.05; done; \
             said=$($PROGRAMS/{name} --pattern {bytes} --json $A) && echo \"$said\" | {figure}"
        )
    });
    let tool = Plain {
        own: Own::Cp,
        reads: Reads::Lines,
        server: format!("export VRDMA_ADAPTER=$SIDE_A; exec $PROGRAMS/{name} --discard --once"),
        client,
        needs: ("sh", "dash"),
        seconds: 10,
        limit: 180,
    };
    Work::Run(setting, Tool::Plain(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMS: Setting = Setting::new(Endpoint::Vm, Transport::Vrdma);
    const PROCESSES: Setting = Setting::new(Endpoint::Process, Transport::Vrdma);

    fn client(work: &Work) -> String {
        match work {
            Work::Run(_, tool) => tool.commands(Scale::Full).client,
            _ => String::new(),
        }
    }

    #[test]
    fn ranks_are_spread_over_all_guests_and_share_memory_inside_one() {
        let words = client(&spread(VMS.spread(4, 2), ["bfs"; 2], 1));
        assert!(words.contains("-np 8 -H d:2,c:2,b:2,a:2 "), "{words}");
        assert!(words.contains(",posix "), "{words}");
    }

    #[test]
    fn ranks_of_processes_have_nothing_but_verbs() {
        assert!(!client(&spread(VMS.spread(4, 1), ["bfs"; 2], 1)).contains("posix"));
        let words = client(&spread(PROCESSES.spread(2, 4), ["bfs"; 2], 1));
        assert!(words.contains("-np 8 "), "{words}");
        assert!(words.contains("RANK -lt 4 ]"), "{words}");
        for faster in ["posix", "sysv", "cma", "sm", "shm"] {
            let ways = words.split("UCX_TLS=").nth(1).unwrap();
            assert!(!ways.split(' ').next().unwrap().contains(faster));
        }
    }

    #[test]
    fn turns_in_many_guests_weigh_more() {
        let seconds = |setting| match mpi(setting, 1, ["transfer"; 2], 1) {
            Work::Run(setting, tool) => tool.seconds(setting),
            _ => 0,
        };
        assert!(seconds(PROCESSES) < seconds(VMS));
        assert!(seconds(VMS) < seconds(VMS.tenants(4)));
    }

    #[test]
    fn tcp_has_no_library_and_no_ucx() {
        let words = client(&mpi(PROCESSES.over(Transport::Tcp), 1, ["get"; 2], 1));
        assert!(!words.contains("UCX"), "{words}");
        assert!(!words.contains(" LD_PRELOAD=$LIBRARY"), "{words}");
    }

    #[test]
    fn far_ranks_of_the_cavity_find_their_mesh() {
        assert!(
            client(&cavity(VMS))
                .starts_with("export LIBRARY=$LD_PRELOAD; unset LD_PRELOAD; export OTHERS=a; ")
        );
        assert!(!client(&cavity(PROCESSES)).contains("OTHERS"));
    }
}
