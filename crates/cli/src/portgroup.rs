//! `vrdma portgroup`

use vrdma_api::{Name, Origin, PortGroup, PortGroupRequest, Vni, paths};
use vrdma_api_client::Client;

use crate::arguments::PortgroupCommand;
use crate::failure::Failure;
use crate::report::Report;
use crate::table::{Column, table};

pub(crate) fn run(client: &Client, command: &PortgroupCommand) -> Result<Report, Failure> {
    match command {
        PortgroupCommand::Add {
            name,
            vlan,
            vni,
            users,
            groups,
        } => add(
            client,
            &PortGroupRequest {
                name: name.clone(),
                vlan: *vlan,
                vni: *vni,
                users: users.clone(),
                groups: groups.clone(),
            },
        ),
        PortgroupCommand::List => list(client),
        PortgroupCommand::Remove { name } => remove(client, name),
    }
}

fn add(client: &Client, request: &PortGroupRequest) -> Result<Report, Failure> {
    let added: PortGroup = client.post(paths::PORTGROUPS, request)?;
    Ok(Report::new(
        &added,
        format!("port group {} added until the daemon stops", added.name),
    ))
}

fn list(client: &Client) -> Result<Report, Failure> {
    let groups: Vec<PortGroup> = client.get(paths::PORTGROUPS)?;
    Ok(Report::new(&groups, list_text(&groups)))
}

fn remove(client: &Client, name: &Name) -> Result<Report, Failure> {
    client.delete(&paths::portgroup(name))?;
    Ok(Report::new(
        &serde_json::json!({ "removed": name }),
        format!("port group {name} removed"),
    ))
}

pub(crate) fn list_text(groups: &[PortGroup]) -> String {
    const COLUMNS: &[Column] = &[
        Column::Text("PORT GROUP"),
        Column::Number("VLAN"),
        Column::Number("VNI"),
        Column::Text("FROM"),
        Column::Text("ADAPTERS"),
    ];
    let rows = groups.iter().map(|group| {
        let adapters: Vec<_> = group.adapters.iter().map(Name::as_str).collect();
        vec![
            group.name.to_string(),
            group.vlan.map_or("-".to_owned(), |vlan| vlan.to_string()),
            network(group).map_or("-".to_owned(), |vni| vni.to_string()),
            origin(group.origin).to_owned(),
            adapters.join(" "),
        ]
    });
    table(
        COLUMNS,
        rows.collect(),
        "no port groups; add one with `vrdma portgroup add NAME`",
    )
}

/// The VXLAN network that a group's frames are in.
fn network(group: &PortGroup) -> Option<Vni> {
    group.vni.or(group.vlan.map(Vni::from))
}

pub(crate) fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Config => "config",
        Origin::Runtime => "runtime",
    }
}
