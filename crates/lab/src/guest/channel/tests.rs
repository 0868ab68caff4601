//! The channel against a real agent on the other end of a socket pair.

use super::*;
use crate::agent::serve;
use crate::guest::console::Console;
use crate::guest::running::Running;

const LONG: Duration = Duration::from_secs(30);

fn start() -> (Channel, UnixStream) {
    let (host, agent) = UnixStream::pair().unwrap();
    let requests = BufReader::new(agent.try_clone().unwrap());
    let end = agent.try_clone().unwrap();
    thread::spawn(move || serve(requests, agent));
    let channel = Channel::over(host).unwrap();
    channel.wait_for_boot(LONG).unwrap();
    (channel, end)
}

fn run(channel: &Channel, command: &str, input: bool) -> Running {
    let id = channel.start(command, input).unwrap();
    Running::new(
        channel.clone(),
        id,
        "a".to_owned(),
        Console::new("/nonexistent".into()),
    )
}

#[test]
fn a_command_runs_to_its_end() {
    let (channel, _) = start();
    let output = run(&channel, "echo out; echo err >&2; exit 5", false)
        .wait(LONG)
        .unwrap();
    assert_eq!(
        (
            output.status,
            output.stdout_text().as_str(),
            output.stderr_text().as_str()
        ),
        (5, "out\n", "err\n")
    );
}

#[test]
fn a_line_can_be_waited_for() {
    let (channel, _) = start();
    let server = run(&channel, "echo one; echo ready 7; cat", true);
    assert_eq!(
        server
            .wait_for_line(LONG, |line| line.starts_with("ready"))
            .unwrap(),
        "ready 7"
    );
    server.write(b"bye\n").unwrap();
    server.close_input().unwrap();
    assert!(server.wait(LONG).unwrap().stdout_text().ends_with("bye\n"));
}

#[test]
fn a_line_that_never_comes_is_an_error_at_the_end() {
    let (channel, _) = start();
    let error = run(&channel, "echo other; exit 2", false)
        .wait_for_line(LONG, |_| false)
        .unwrap_err();
    assert!(format!("{error:#}").contains("status 2"));
}

#[test]
fn large_input_and_output_pass_whole() {
    let (channel, _) = start();
    let data: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let cat = run(&channel, "cat", true);
    cat.write(&data).unwrap();
    cat.close_input().unwrap();
    assert_eq!(cat.wait(LONG).unwrap().stdout, data);
}

#[test]
fn a_limit_names_the_output_so_far() {
    let (channel, _) = start();
    let sleeper = run(&channel, "echo waiting; exec sleep 1000", false);
    sleeper
        .wait_for_line(LONG, |line| line == "waiting")
        .unwrap();
    let error = format!("{:#}", sleeper.wait(Duration::ZERO).unwrap_err());
    assert!(
        error.contains("waiting") && error.contains("has not ended after 0 s"),
        "{error}"
    );
}

#[test]
fn a_lost_guest_ends_its_commands() {
    let (channel, end) = start();
    let sleeper = run(&channel, "exec sleep 1000", false);
    let group = sleeper.wait_started(LONG).unwrap();
    end.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(sleeper.wait(LONG).is_err());
    assert!(channel.start("true", false).is_err());
    crate::process::signal_group(group, rustix::process::Signal::KILL);
}

#[test]
fn a_second_hello_means_that_commands_are_gone() {
    let mut state = State::default();
    state.commands.insert(1, Command::default());
    state.commands.insert(
        2,
        Command {
            status: Some(0),
            ..Command::default()
        },
    );
    state.apply(Event::Hello);
    assert!(state.booted);
    assert!(state.commands[&1].lost && !state.commands[&2].lost);
}
