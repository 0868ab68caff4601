//! RDMA over a wire between two hosts, beside rxe and TCP over the same wire.
//!
//! ```text
//!  vrdma guests, raw uplinks    -> every cell, TCP of the guests, daemons' time
//!  vrdma guests, tunnel         -> every cell, TCP of the guests, daemons' time
//!  rxe guests, TAPs on the wire -> every cell, TCP of the guests
//!  vrdma processes, raw, tunnel, tunnel with a key -> every cell, daemons' time, TCP of the hosts
//!  vrdma guests, raw, n % loss  -> write bandwidth and TCP through the same faults
//!  the engine alone, no wire    -> packets a second of one core
//! ```
//!
//! One pair at a time, so that each has the machine for itself.

mod contender;
mod engine;
mod findings;
mod hosts;
mod table;

use anyhow::Result;
use serde_json::json;
use vrdma_lab::guest::Kind;
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};
use vrdma_lab::place::Place;
use vrdma_lab::steps::Steps;
use vrdma_lab::wire::{Uplink, WireConfig};

use super::{Arguments, Measured};
use crate::lab::{built, daemon};
use crate::named::Only;
use contender::{Contender, Figures};
pub(super) use hosts::Hosts;

/// Room for RoCE packets of 4096 bytes, also inside a tunnel; TCP's segments are larger still.
pub(super) const MTU: u16 = 9000;

/// Guests on two hosts.
const GUEST_PAIRS: &[(&str, Kind, Uplink)] = &[
    ("vrdma, raw", Kind::Vrdma, Uplink::Raw),
    ("vrdma, tunnel", Kind::Vrdma, Uplink::Tunnel),
    ("rxe", Kind::Rxe, Uplink::Raw),
];

/// Processes of two hosts.
const PROCESS_PAIRS: &[(&str, Uplink)] = &[
    ("vrdma processes, raw", Uplink::Raw),
    ("vrdma processes, tunnel", Uplink::Tunnel),
    ("vrdma processes, tunnel with a key", Uplink::Sealed),
];

/// Losses of the goodput rows; the other cells have none.
const LOSSES: &[&str] = &["0.1%", "1%", "5%"];

/// Names of all contenders.
pub(super) fn rows() -> Vec<String> {
    let guests = GUEST_PAIRS.iter().map(|(name, ..)| (*name).to_owned());
    let processes = PROCESS_PAIRS.iter().map(|(name, _)| (*name).to_owned());
    let losses = LOSSES.iter().map(|loss| lossy(loss));
    let engine = [engine::NAME.to_owned()];
    guests
        .chain(processes)
        .chain(losses)
        .chain(engine)
        .collect()
}

/// Name of the guests whose wire has this loss.
fn lossy(loss: &str) -> String {
    format!("{loss} loss")
}

pub(super) fn run(arguments: &Arguments) -> Result<Measured> {
    let bench = Bench {
        program: daemon(true)?,
        vrdma: built("vrdma", true)?,
        repetitions: arguments.repetitions,
        only: &arguments.only,
        steps: Steps::default(),
    };
    let mut figures = Vec::new();
    for &(name, kind, uplink) in GUEST_PAIRS {
        figures.extend(bench.with_pair(name, kind, uplink, "", |contender| contender.all()));
    }
    for &(name, uplink) in PROCESS_PAIRS {
        figures.extend(bench.with_processes(name, uplink));
    }
    for loss in LOSSES {
        let faults = format!("loss={loss}");
        let measured = bench.with_pair(
            &lossy(loss),
            Kind::Vrdma,
            Uplink::Raw,
            &faults,
            |contender| contender.goodput(),
        );
        figures.extend(measured);
    }
    let notes = table::notes(MTU, arguments.repetitions);
    let mut findings = findings::of(&figures);
    if arguments.only.means(engine::NAME) {
        findings.extend(engine::findings(&bench.steps)?);
    }
    Ok(Measured {
        findings,
        details: json!({ "mtu": MTU, "figures": figures }),
        table: Some(format!("{}\n{notes}", table::render(&figures))),
    })
}

struct Bench<'a> {
    /// The contenders to measure.
    only: &'a Only,
    program: std::path::PathBuf,
    vrdma: std::path::PathBuf,
    repetitions: u32,
    steps: Steps,
}

impl Bench<'_> {
    /// Figures of one pair; a pair that does not start is reported as a failed figure.
    fn with_pair(
        &self,
        name: &str,
        kind: Kind,
        uplink: Uplink,
        faults: &str,
        measure: impl Fn(&Contender<'_>) -> Vec<Figures>,
    ) -> Vec<Figures> {
        if !self.only.means(name) {
            return Vec::new();
        }
        let step = self.steps.start(&format!("boot two guests: {name}"));
        let network = Network::Wire {
            program: self.program.clone(),
            wire: wire(uplink, faults),
        };
        let pair = Pair::start(&PairConfig {
            kinds: [kind; 2],
            ..PairConfig::new(network)
        });
        step.done();
        match pair {
            Ok(pair) => measure(&Contender {
                name,
                places: [Side::A, Side::B].map(|side| pair.guest(side).control() as &dyn Place),
                daemons: pair.daemons(),
                wire: pair.wire(),
                vrdma: &self.vrdma,
                repetitions: self.repetitions,
                steps: &self.steps,
            }),
            Err(error) => vec![Figures::failed(name, &error)],
        }
    }

    /// Figures of processes of two hosts, each with its daemon.
    fn with_processes(&self, name: &str, uplink: Uplink) -> Vec<Figures> {
        if !self.only.means(name) {
            return Vec::new();
        }
        match Hosts::start(&self.program, &wire(uplink, "")) {
            Ok(hosts) => Contender {
                name,
                places: hosts.places(),
                daemons: &hosts.daemons,
                wire: Some(&hosts.wire),
                vrdma: &self.vrdma,
                repetitions: self.repetitions,
                steps: &self.steps,
            }
            .processes(uplink == Uplink::Raw),
            Err(error) => vec![Figures::failed(name, &error)],
        }
    }
}

fn wire(uplink: Uplink, faults: &str) -> WireConfig {
    WireConfig {
        uplink,
        mtu: MTU,
        faults: faults.to_owned(),
    }
}
