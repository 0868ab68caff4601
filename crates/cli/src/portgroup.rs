//! `vrdma portgroup`

use vrdma_api::{Name, Origin, PortGroup, PortGroupChange, PortGroupRequest, Vni, Weight, paths};
use vrdma_api_client::Client;

use crate::arguments::PortgroupCommand;
use crate::failure::Failure;
use crate::limits;
use crate::report::Report;
use crate::stats::drops;
use crate::table::{Column, facts, table};

pub(crate) fn run(client: &Client, command: &PortgroupCommand) -> Result<Report, Failure> {
    match command {
        PortgroupCommand::Add {
            name,
            vlan,
            vni,
            allow_roce_frames,
            users,
            groups,
            limits,
            weight,
        } => add(
            client,
            &PortGroupRequest {
                name: name.clone(),
                vlan: *vlan,
                vni: *vni,
                allow_roce_frames: *allow_roce_frames,
                users: users.clone(),
                groups: groups.clone(),
                limits: limits.limits(),
                weight: *weight,
            },
        ),
        PortgroupCommand::Set {
            name,
            limits,
            weight,
        } => set(
            client,
            name,
            &PortGroupChange {
                limits: limits.change(),
                weight: *weight,
            },
        ),
        PortgroupCommand::List => list(client),
        PortgroupCommand::Show { name } => show(client, name),
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

fn set(client: &Client, name: &Name, change: &PortGroupChange) -> Result<Report, Failure> {
    let changed: PortGroup = client.patch(&paths::portgroup(name), change)?;
    Ok(Report::new(&changed, change_text(name, change)))
}

fn change_text(name: &Name, change: &PortGroupChange) -> String {
    let mut what = limits::told(&change.limits);
    if let Some(weight) = change.weight {
        what.push(format!("has the weight {weight}"));
    }
    format!(
        "port group {name} {} until the daemon stops",
        what.join(" and ")
    )
}

fn show(client: &Client, name: &Name) -> Result<Report, Failure> {
    let group: PortGroup = client.get(&paths::portgroup(name))?;
    Ok(Report::new(&group, show_text(&group)))
}

fn show_text(group: &PortGroup) -> String {
    let adapters: Vec<_> = group.adapters.iter().map(Name::as_str).collect();
    let mut rows = vec![("port group", group.name.to_string())];
    let optional = [
        ("VLAN", group.vlan.map(|vlan| vlan.to_string())),
        ("VNI", network(group).map(|vni| vni.to_string())),
    ];
    let known = optional.into_iter();
    rows.extend(known.filter_map(|(name, value)| Some((name, value?))));
    rows.push(("from", origin(group.origin).to_owned()));
    rows.push(("adapters", adapters.join(" ")));
    let roce = group.allow_roce_frames;
    rows.extend(roce.then(|| ("RoCE frames", "allowed".to_owned())));
    rows.extend(limits::rows(&group.limits));
    let weighs = group.weight != Weight::default();
    rows.extend(weighs.then(|| ("weight", group.weight.to_string())));
    rows.extend(limits::waits(&group.throttled, &group.throttled_in));
    let dropped = group.over_limit > 0;
    rows.extend(dropped.then(|| {
        (
            "over limit",
            format!("{} packets dropped", group.over_limit),
        )
    }));
    let drops = group.drops.iter().flat_map(|of| {
        [
            ("RDMA drops", drops(&of.rdma)),
            ("Ethernet drops", drops(&of.ethernet)),
        ]
    });
    rows.extend(drops);
    facts(rows)
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

/// The VXLAN network of a group's frames.
fn network(group: &PortGroup) -> Option<Vni> {
    group.vni.or(group.vlan.map(Vni::from))
}

pub(crate) fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Config => "config",
        Origin::Runtime => "runtime",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_told_and_shown() {
        let change: PortGroupChange =
            serde_json::from_str(r#"{ "limit_out": null, "weight": 3 }"#).unwrap();
        let name = "blue".parse().unwrap();
        assert_eq!(
            change_text(&name, &change),
            "port group blue sends at most what it can and has the weight 3 until the daemon stops"
        );
        let group = r#"{ "name": "blue", "origin": "runtime", "adapters": [], "weight": 3 }"#;
        let group: PortGroup = serde_json::from_str(group).unwrap();
        assert!(
            show_text(&group).contains("weight      3"),
            "{}",
            show_text(&group)
        );
        let silent = "nothing is said of drops that nobody has told";
        assert!(!show_text(&group).contains("drops"), "{silent}");
    }

    #[test]
    fn drops_are_shown_by_reason() {
        let group = r#"{ "name": "blue", "origin": "runtime", "adapters": ["c1"], "drops":
            { "rdma": { "unknown-adapter": 2, "icrc": 1 }, "ethernet": {} } }"#;
        let group: PortGroup = serde_json::from_str(group).unwrap();
        insta::assert_snapshot!(show_text(&group), @r"
        port group      blue
        from            runtime
        adapters        c1
        RDMA drops      icrc 1, unknown-adapter 2
        Ethernet drops  none
        ");
        let told = serde_json::to_value(&group).unwrap();
        assert_eq!(told["drops"]["rdma"]["unknown-adapter"], 2);
    }
}
