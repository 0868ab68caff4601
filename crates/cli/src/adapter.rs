//! `vrdma adapter`

use vrdma_api::{Adapter, AdapterRequest, Name, paths};

use crate::arguments::{AdapterCommand, LibvirtOptions, QemuOptions};
use crate::client::Client;
use crate::failure::Failure;
use crate::portgroup::origin;
use crate::qemu::{self, libvirt};
use crate::report::Report;
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
        } => {
            let (name, portgroup) = (name.clone(), portgroup.clone());
            add(
                client,
                &AdapterRequest {
                    name,
                    portgroup,
                    mac: *mac,
                    doorbells: *doorbells,
                },
            )
        }
        AdapterCommand::List => list(client),
        AdapterCommand::Show { name } => show(client, name),
        AdapterCommand::Remove { name } => remove(client, name),
        AdapterCommand::QemuArgs(options) => qemu_args(client, options),
        AdapterCommand::LibvirtXml(options) => libvirt_xml(client, options),
    }
}

fn get(client: &Client, name: &Name) -> Result<Adapter, Failure> {
    client.get(&paths::adapter(name))
}

fn add(client: &Client, request: &AdapterRequest) -> Result<Report, Failure> {
    let added: Adapter = client.post(paths::ADAPTERS, request)?;
    let name = &added.name;
    let text = format!(
        "adapter {name} added until the daemon stops; `vrdma adapter qemu-args {name}` prints QEMU's options"
    );
    Ok(Report::new(&added, text))
}

fn list(client: &Client) -> Result<Report, Failure> {
    let adapters: Vec<Adapter> = client.get(paths::ADAPTERS)?;
    Ok(Report::new(&adapters, list_text(&adapters)))
}

fn show(client: &Client, name: &Name) -> Result<Report, Failure> {
    let adapter = get(client, name)?;
    Ok(Report::new(&adapter, show_text(&adapter)))
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
    let options_of_qemu = qemu::options(&get(client, &options.name)?, memory, options.slot);
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
    let xml = libvirt::domain(&qemu::options(
        &get(client, &options.name)?,
        None,
        options.slot,
    ));
    Ok(Report::new(&serde_json::json!({ "xml": xml }), xml))
}

fn list_text(adapters: &[Adapter]) -> String {
    const COLUMNS: &[Column] = &[
        Column::Text("ADAPTER"),
        Column::Text("PORT GROUP"),
        Column::Text("MAC"),
        Column::Text("DOORBELLS"),
        Column::Text("FROM"),
    ];
    let rows = adapters.iter().map(|adapter| {
        vec![
            adapter.name.to_string(),
            adapter.portgroup.to_string(),
            adapter.mac.to_string(),
            adapter.doorbells.to_string(),
            origin(adapter.origin).to_owned(),
        ]
    });
    table(COLUMNS, rows.collect(), NONE)
}

fn show_text(adapter: &Adapter) -> String {
    facts(vec![
        ("adapter", adapter.name.to_string()),
        ("port group", adapter.portgroup.to_string()),
        ("MAC", adapter.mac.to_string()),
        ("doorbells", adapter.doorbells.to_string()),
        ("from", origin(adapter.origin).to_owned()),
        (
            "vfio-user socket",
            adapter.vfio_user_socket.display().to_string(),
        ),
        (
            "Ethernet socket",
            adapter.ethernet_socket.display().to_string(),
        ),
    ])
}
