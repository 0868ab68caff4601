//! `vrdma adapter`

use std::path::PathBuf;

use vrdma_api::{
    Adapter, AdapterChange, AdapterKind, AdapterRequest, Addresses, MoveRequest, Name, UnixName,
    Weight, paths,
};
use vrdma_api_client::Client;

use crate::arguments::{AdapterCommand, LibvirtOptions, NewAddress, QemuOptions};
use crate::failure::Failure;
use crate::limits;
use crate::portgroup::origin;
use crate::qemu::{self, libvirt};
use crate::report::Report;
use crate::snapshot;
use crate::state;
use crate::table::{Column, facts, table};

pub(crate) const NONE: &str =
    "no adapters; add one with `vrdma adapter add NAME --portgroup GROUP`";

pub(crate) fn run(client: &Client, command: &AdapterCommand) -> Result<Report, Failure> {
    match command {
        AdapterCommand::Add {
            name,
            portgroup,
            mac,
            doorbells,
            kind,
            ip,
            shard,
            away,
            limits,
            weight,
            users,
            groups,
        } => add(
            client,
            &AdapterRequest {
                name: name.clone(),
                portgroup: portgroup.clone(),
                mac: *mac,
                doorbells: *doorbells,
                kind: *kind,
                ip: new_addresses(ip)?.unwrap_or_default(),
                shard: *shard,
                away: *away,
                limits: limits.limits(),
                weight: *weight,
                users: users.clone(),
                groups: groups.clone(),
            },
        ),
        AdapterCommand::Move { name, shard } => move_to(client, name, *shard),
        AdapterCommand::Set {
            name,
            limits,
            weight,
            ip,
            users,
            groups,
        } => set(
            client,
            name,
            &AdapterChange {
                limits: limits.change(),
                weight: *weight,
                ip: new_addresses(ip)?,
                users: named(users),
                groups: named(groups),
            },
        ),
        AdapterCommand::List => list(client),
        AdapterCommand::Show { name, state } => show(client, name, *state),
        AdapterCommand::Remove { name } => remove(client, name),
        AdapterCommand::Save(options) => snapshot::save(client.socket(), options),
        AdapterCommand::Restore(options) => snapshot::restore(client.socket(), options),
        AdapterCommand::QemuArgs(options) => qemu_args(client, options),
        AdapterCommand::LibvirtXml(options) => libvirt_xml(client, options),
    }
}

fn get(client: &Client, name: &Name) -> Result<Adapter, Failure> {
    Ok(client.get(&paths::adapter(name))?)
}

/// Returns an adapter that QEMU can use.
fn get_of_vm(client: &Client, name: &Name) -> Result<Adapter, Failure> {
    let adapter = get(client, name)?;
    if adapter.kind == AdapterKind::Vm {
        return Ok(adapter);
    }
    Err(Failure::new(format!(
        "the adapter {name} is of kind {}; add one of kind vm for a VM",
        adapter.kind
    )))
}

fn add(client: &Client, request: &AdapterRequest) -> Result<Report, Failure> {
    let added: Adapter = client.post(paths::ADAPTERS, request)?;
    let name = &added.name;
    let next = match added.kind {
        AdapterKind::Vm => format!("`vrdma adapter qemu-args {name}` prints QEMU's options"),
        AdapterKind::Process => format!("`vrdma run --adapter {name} -- PROGRAM` uses it"),
        AdapterKind::Tap => format!("`ip address show dev {name}` shows its interface"),
    };
    let text = format!("adapter {name} added until the daemon stops; {next}");
    Ok(Report::new(&added, text))
}

fn move_to(client: &Client, name: &Name, shard: u16) -> Result<Report, Failure> {
    let path = format!("{}/move", paths::adapter(name));
    let moved: Adapter = client.post(&path, &MoveRequest { shard })?;
    let text = format!("shard {shard} serves the adapter {name}");
    Ok(Report::new(&moved, text))
}

fn list(client: &Client) -> Result<Report, Failure> {
    let adapters: Vec<Adapter> = client.get(paths::ADAPTERS)?;
    Ok(Report::new(&adapters, list_text(&adapters)))
}

fn show(client: &Client, name: &Name, state: bool) -> Result<Report, Failure> {
    if state {
        return state::run(client, name);
    }
    let adapter = get(client, name)?;
    Ok(Report::new(&adapter, show_text(&adapter)))
}

fn set(client: &Client, name: &Name, change: &AdapterChange) -> Result<Report, Failure> {
    let changed: Adapter = client.patch(&paths::adapter(name), change)?;
    Ok(Report::new(&changed, change_text(change, &changed)))
}

fn change_text(change: &AdapterChange, changed: &Adapter) -> String {
    let mut what = limits::told(&change.limits);
    if let Some(weight) = change.weight {
        what.push(format!("has the weight {weight}"));
    }
    if change.ip.is_some() {
        what.push(match &changed.ip {
            Addresses::Learned => "is kept to the addresses that its guest uses first".to_owned(),
            none if none.is_empty() => "may have any address".to_owned(),
            stated => format!("is kept to {stated}"),
        });
    }
    if change.users.is_some() || change.groups.is_some() {
        what.push(match people(changed).as_str() {
            NOBODY => "is the daemon's own user's alone".to_owned(),
            people => format!("may be used by {people}"),
        });
    }
    let (name, what) = (&changed.name, what.join(" and "));
    format!("adapter {name} {what} until the daemon stops")
}

/// The addresses to set, or `None` if none are stated; `none` clears them.
fn new_addresses(stated: &[NewAddress]) -> Result<Option<Addresses>, Failure> {
    let addresses = stated.iter().filter_map(|address| match address {
        NewAddress::One(ip) => Some(*ip),
        NewAddress::Learned | NewAddress::None => None,
    });
    match stated {
        [] => Ok(None),
        [NewAddress::Learned] => Ok(Some(Addresses::Learned)),
        several if several.contains(&NewAddress::Learned) => Err(Failure::new(
            "`--ip learn` stands alone; leave it out, or the other addresses",
        )),
        _ => Ok(Some(addresses.collect())),
    }
}

/// The names to set, or `None` if none are stated; `none` clears them.
fn named(names: &[UnixName]) -> Option<Vec<UnixName>> {
    let all = names.iter().filter(|name| name.as_str() != "none");
    (!names.is_empty()).then(|| all.cloned().collect())
}

const NOBODY: &str = "-";

/// Who may use an adapter besides the daemon's own user; groups with an @.
pub(crate) fn people(adapter: &Adapter) -> String {
    let users = adapter.users.iter().map(ToString::to_string);
    let groups = adapter.groups.iter().map(|group| format!("@{group}"));
    let all: Vec<_> = users.chain(groups).collect();
    match all.len() {
        0 => NOBODY.to_owned(),
        _ => all.join(" "),
    }
}

fn remove(client: &Client, name: &Name) -> Result<Report, Failure> {
    client.delete(&paths::adapter(name))?;
    Ok(Report::new(
        &serde_json::json!({ "removed": name }),
        format!("adapter {name} removed"),
    ))
}

fn qemu_args(client: &Client, options: &QemuOptions) -> Result<Report, Failure> {
    let memory = (!options.without_memory).then_some(options.memory);
    let options_of_qemu = qemu::options(&get_of_vm(client, &options.name)?, memory, options.slot);
    let words: Vec<&str> = options_of_qemu
        .iter()
        .flat_map(|option| [option.flag, option.value.as_str()])
        .collect();
    let text = if options.quote {
        qemu::quoted(&options_of_qemu)
    } else {
        qemu::plain(&options_of_qemu)?
    };
    Ok(Report::new(&words, text))
}

fn libvirt_xml(client: &Client, options: &LibvirtOptions) -> Result<Report, Failure> {
    let adapter = get_of_vm(client, &options.name)?;
    let mut options_of_qemu = qemu::options(&adapter, None, options.slot);
    options_of_qemu.extend(options.qmp.as_deref().map(qemu::monitor));
    options_of_qemu.extend(options.incoming.then(qemu::incoming));
    let xml = libvirt::domain(&options_of_qemu);
    Ok(Report::new(&serde_json::json!({ "xml": xml }), xml))
}

fn list_text(adapters: &[Adapter]) -> String {
    const COLUMNS: &[Column] = &[
        Column::Text("ADAPTER"),
        Column::Text("PORT GROUP"),
        Column::Text("KIND"),
        Column::Text("MAC"),
        Column::Text("IP"),
        Column::Text("USERS"),
        Column::Text("FROM"),
    ];
    let rows = adapters.iter().map(|adapter| {
        vec![
            adapter.name.to_string(),
            adapter.portgroup.to_string(),
            adapter.kind.to_string(),
            adapter.mac.to_string(),
            addresses(adapter).unwrap_or_else(|| "-".to_owned()),
            people(adapter),
            origin(adapter.origin).to_owned(),
        ]
    });
    table(COLUMNS, rows.collect(), NONE)
}

fn addresses(adapter: &Adapter) -> Option<String> {
    (!adapter.ip.is_empty()).then(|| adapter.ip.to_string())
}

fn show_text(adapter: &Adapter) -> String {
    let shown = |path: &PathBuf| path.display().to_string();
    let mut rows = vec![
        ("adapter", adapter.name.to_string()),
        ("port group", adapter.portgroup.to_string()),
        ("kind", adapter.kind.to_string()),
        ("MAC", adapter.mac.to_string()),
        ("users", people(adapter)),
        ("from", origin(adapter.origin).to_owned()),
    ];
    let of_vm = (adapter.kind == AdapterKind::Vm).then(|| adapter.doorbells.to_string());
    let optional = [
        ("IP", addresses(adapter)),
        ("shard", adapter.shard.map(|shard| shard.to_string())),
        ("doorbells", of_vm),
        ("VM", adapter.away.then(|| "on another host".to_owned())),
        (
            "vfio-user socket",
            adapter.vfio_user_socket.as_ref().map(shown),
        ),
        (
            "Ethernet socket",
            adapter.ethernet_socket.as_ref().map(shown),
        ),
        ("process socket", adapter.process_socket.as_ref().map(shown)),
    ];
    let known = optional.into_iter();
    rows.extend(known.filter_map(|(name, value)| Some((name, value?))));
    rows.extend(limits::rows(&adapter.limits));
    let weighs = adapter.weight != Weight::default();
    rows.extend(weighs.then(|| ("weight", adapter.weight.to_string())));
    facts(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter() -> Adapter {
        serde_json::from_value(serde_json::json!({
            "name": "c1", "portgroup": "blue", "mac": "52:54:00:00:00:01", "doorbells": "mapped",
            "origin": "runtime", "users": ["alice"], "groups": ["7"],
        }))
        .unwrap()
    }

    #[test]
    fn a_change_tells_which_addresses_the_guest_has_then() {
        let mut adapter = adapter();
        let stated = |texts: &[&str]| {
            let all: Vec<NewAddress> = texts.iter().map(|text| text.parse().unwrap()).collect();
            AdapterChange {
                ip: new_addresses(&all).unwrap(),
                ..AdapterChange::default()
            }
        };
        assert_eq!(stated(&[]).ip, None);
        let change = stated(&["10.0.0.5", "fd00::5"]);
        adapter.ip = change.ip.clone().unwrap();
        let text = change_text(&change, &adapter);
        assert_eq!(
            text,
            "adapter c1 is kept to 10.0.0.5 fd00::5 until the daemon stops"
        );
        assert!(show_text(&adapter).contains("10.0.0.5 fd00::5"));
        let change = stated(&["learn"]);
        adapter.ip = change.ip.clone().unwrap();
        let text = change_text(&change, &adapter);
        assert_eq!(
            text,
            "adapter c1 is kept to the addresses that its guest uses first until the daemon stops"
        );
        assert!(show_text(&adapter).contains("learn"));
        let both = [NewAddress::Learned, "10.0.0.5".parse().unwrap()];
        assert_eq!(
            new_addresses(&both).unwrap_err().to_string(),
            "`--ip learn` stands alone; leave it out, or the other addresses"
        );
        let change = stated(&["none"]);
        adapter.ip = change.ip.clone().unwrap();
        let text = change_text(&change, &adapter);
        assert_eq!(
            text,
            "adapter c1 may have any address until the daemon stops"
        );
    }

    #[test]
    fn a_change_tells_who_may_use_the_adapter_then() {
        let mut adapter = adapter();
        let users = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| name.parse().unwrap()).collect();
            let users = named(&names);
            AdapterChange {
                users,
                ..AdapterChange::default()
            }
        };
        let change = users(&["alice"]);
        let asked = serde_json::to_string(&change).unwrap();
        assert_eq!(asked, r#"{"users":["alice"]}"#);
        let text = change_text(&change, &adapter);
        assert_eq!(
            text,
            "adapter c1 may be used by alice @7 until the daemon stops"
        );
        let change = users(&["none"]);
        assert_eq!(change.users, Some(Vec::new()));
        assert_eq!(users(&[]).users, None);
        (adapter.users, adapter.groups) = (Vec::new(), Vec::new());
        let text = change_text(&change, &adapter);
        assert_eq!(
            text,
            "adapter c1 is the daemon's own user's alone until the daemon stops"
        );
    }
}
