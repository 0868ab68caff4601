//! Programs killed, guests rebooted and drivers reloaded during traffic: the other guest gets proper errors, and
//! everything works again afterwards.

use std::time::Duration;

use anyhow::{Result, ensure};
use vrdma_lab::guest::Running;
use vrdma_lab::pair::Side;

use super::{Bench, objects, with_device};

/// Both sides write for longer than any scenario takes, so that both notice.
const ENDLESS: &str = "exec ib_write_bw -d $DEV -x 1 -F -b -s 4096 -D 300";

/// perftest's message when its peer is gone: RETRY_EXC.
const GONE: &str = "Failed status 12";

/// Time for a requester to give up: perftest's timeout of 67 ms, seven retries, a slow machine.
const GIVES_UP: Duration = Duration::from_secs(60);

const SHORT: Duration = Duration::from_secs(60);

type Scenario = fn(&mut Bench) -> Result<()>;

/// Name and steps.
pub(super) const SCENARIOS: &[(&str, Scenario)] = &[
    ("client killed under traffic", client_killed),
    ("server killed under traffic", server_killed),
    ("guest rebooted under traffic", guest_rebooted),
    ("guest's power lost under traffic", power_lost),
    ("driver unloaded and loaded", driver_reloaded),
    ("network card down and up", link_flap),
];

/// Starts endless writes in both directions.
fn traffic(bench: &Bench) -> Result<(Running, Running)> {
    let (a, b) = (bench.pair.guest(Side::A), bench.pair.guest(Side::B));
    let server = a.spawn(&with_device(ENDLESS))?;
    a.wait_settled(&server)?;
    let client = b.spawn(&with_device(&format!("{ENDLESS} $A")))?;
    objects::wait_for_traffic(&bench.pair, &bench.vrdma)?;
    Ok((server, client))
}

fn ends_with_an_error(survivor: Running) -> Result<()> {
    let output = survivor.wait(GIVES_UP)?;
    let words = output.stdout_text() + &output.stderr_text();
    ensure!(
        output.status != 0,
        "the other side did not notice:\n{words}"
    );
    ensure!(words.contains(GONE), "not a proper error:\n{words}");
    Ok(())
}

fn works_again(bench: &Bench) -> Result<()> {
    let server = with_device("ibv_rc_pingpong -d $DEV -g 1 -c -n 100");
    let outcome = bench.pair.run(&server, &format!("{server} $A"), SHORT)?;
    let client = outcome.client;
    ensure!(
        client.status == 0,
        "no traffic afterwards:\n{}{}",
        client.stdout_text(),
        client.stderr_text()
    );
    Ok(())
}

fn client_killed(bench: &mut Bench) -> Result<()> {
    let (server, client) = traffic(bench)?;
    client.kill()?;
    ends_with_an_error(server)?;
    works_again(bench)
}

fn server_killed(bench: &mut Bench) -> Result<()> {
    let (server, client) = traffic(bench)?;
    server.kill()?;
    ends_with_an_error(client)?;
    works_again(bench)
}

fn guest_rebooted(bench: &mut Bench) -> Result<()> {
    let (server, _client) = traffic(bench)?;
    bench.pair.guest(Side::B).reboot()?;
    ends_with_an_error(server)?;
    works_again(bench)
}

fn power_lost(bench: &mut Bench) -> Result<()> {
    let (server, _client) = traffic(bench)?;
    bench.pair.restart_guest(Side::B)?;
    ends_with_an_error(server)?;
    works_again(bench)
}

fn driver_reloaded(bench: &mut Bench) -> Result<()> {
    let (server, client) = traffic(bench)?;
    client.kill()?;
    let guest = bench.pair.guest(Side::B);
    guest.check("modprobe -r rdma_ucm && modprobe -r vmw_pvrdma && modprobe vmw_pvrdma && modprobe rdma_ucm")?;
    guest.check("until grep -q ACTIVE /sys/class/infiniband/*/ports/1/state; do :; done")?;
    ends_with_an_error(server)?;
    works_again(bench)
}

/// The guest's core removes and binds its GIDs; connections that time out meanwhile may fail.
fn link_flap(bench: &mut Bench) -> Result<()> {
    let guest = bench.pair.guest(Side::B);
    guest.check(
        "ip link set eth0 down && ip link set eth0 up && ip address replace $B/24 dev eth0",
    )?;
    guest.check("until grep -q ACTIVE /sys/class/infiniband/*/ports/1/state; do :; done")?;
    guest.check("until ping -c 1 -W 1 $A >/dev/null; do :; done")?;
    works_again(bench)
}
