//! How the programs of ours are started: `vrdma-mpi` by mpirun, `vrdma-cp` as server and client.
//!
//! Ranks of processes are all started on side b, the first half on the adapter of side a, and only they have our
//! library in front of theirs, not mpirun. Guests start their far ranks by ssh.

use crate::cell::{Endpoint, Setting, Transport, Work};
use crate::plan::Scale;
use crate::programs::Own;
use crate::tool::cavity::words;
use crate::tool::{Plain, Reads, Tool};

/// UCX over verbs, and nothing else that would be faster, such as shared memory for one-sided messages.
const VERBS: &str = "--mca pml ucx --mca osc ucx --mca btl ^openib -x UCX_NET_DEVICES=$DEV:1 \
     -x UCX_TLS=rc_verbs,ud_verbs:aux,self -x UCX_WARN_UNUSED_ENV_VARS=n";

const TCP: &str = "--mca pml ob1 --mca btl tcp,self";

const MPIRUN: &str = "mpirun --allow-run-as-root --oversubscribe";

/// A test of `vrdma-mpi` with `half` ranks on each side; its words in a full run and in a short one.
pub(super) fn mpi(setting: Setting, half: u32, test: [&str; 2], seconds: u64) -> Work {
    let tool = Plain {
        own: Own::Mpi,
        reads: Reads::Lines,
        server: String::new(),
        client: test.map(|test| launch(setting, half, test)),
        needs: ("mpirun", "openmpi-bin"),
        limit: seconds * 10,
    };
    Work::Run(setting, Tool::Plain(tool))
}

fn launch(setting: Setting, half: u32, test: &str) -> String {
    let transport = match setting.transport {
        Transport::Tcp => TCP,
        Transport::Vrdma | Transport::Rxe => VERBS,
    };
    let program = format!("$PROGRAMS/{} {test}", Own::Mpi.name());
    match setting.endpoint {
        Endpoint::Vm => {
            let ranks = 2 * half;
            format!("{MPIRUN} -np {ranks} -H a:{half},b:{half} {transport} {program}")
        }
        Endpoint::Process | Endpoint::Container => {
            let library = match setting.transport {
                Transport::Tcp => "",
                Transport::Vrdma | Transport::Rxe => "-x LD_PRELOAD=$LIBRARY ",
            };
            let side =
                |name: &str| format!("-np {half} -x VRDMA_ADAPTER={name} {library}{program}");
            let ranks = format!("{} : {}", side("a"), side("b"));
            format!("LIBRARY=$LD_PRELOAD; unset LD_PRELOAD; {MPIRUN} {transport} {ranks}")
        }
    }
}

/// OpenFOAM's cavity on two ranks of this host, which has OpenFOAM where guests have not.
pub(super) fn cavity(transport: Transport) -> Work {
    let setting = Setting::new(Endpoint::Process, transport);
    let (adapters, transport) = match transport {
        Transport::Tcp => ("", TCP),
        Transport::Vrdma | Transport::Rxe => ("export ADAPTERS='a b'; ", VERBS),
    };
    let name = Own::Cavity.name();
    let run = |scale| {
        let words = words(2, scale);
        format!(
            "export LIBRARY=$LD_PRELOAD; unset LD_PRELOAD; {adapters}$PROGRAMS/{name} {words} {MPIRUN} -np 2 \
             --mca mpi_yield_when_idle 1 {transport}"
        )
    };
    let tool = Plain {
        own: Own::Cavity,
        reads: Reads::Cavity("np2"),
        server: String::new(),
        client: [Scale::Full, Scale::Short].map(run),
        needs: ("icoFoam", "openfoam"),
        limit: 600,
    };
    Work::Run(setting, Tool::Plain(tool))
}

/// A file of a pattern by `vrdma-cp`, so many bytes in a full run and in a short one.
pub(super) fn cp(setting: Setting, bytes: [&str; 2]) -> Work {
    let name = Own::Cp.name();
    let tool = Plain {
        own: Own::Cp,
        reads: Reads::Seconds("1GB"),
        server: format!("$PROGRAMS/{name} --discard --once"),
        client: bytes.map(|bytes| format!("$PROGRAMS/{name} --pattern {bytes} --json $A")),
        needs: ("sh", "dash"),
        limit: 180,
    };
    Work::Run(setting, Tool::Plain(tool))
}
