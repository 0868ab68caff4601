//! `vrdma user`

use vrdma_api::{ResourceUsage, UnixName, Usage, UserUsage, paths};
use vrdma_api_client::Client;

use crate::arguments::UserCommand;
use crate::failure::Failure;
use crate::report::Report;
use crate::table::{Column, bytes, facts, table};

/// Columns of the list: heading, kind, and whether it counts bytes.
const SHOWN: [(&str, &str, bool); 8] = [
    ("SESSIONS", "sessions", false),
    ("QPS", "queue pairs", false),
    ("MRS", "memory regions and windows", false),
    ("RINGS", "bytes of rings", true),
    ("MAPPED", "bytes of mapped files", true),
    ("DESCRIPTORS", "descriptors", false),
    ("MAPPINGS", "mappings", false),
    ("RDMA_CM IDS", "identifiers of rdma_cm", false),
];

pub(crate) fn run(client: &Client, command: &UserCommand) -> Result<Report, Failure> {
    let usage: Usage = client.get(paths::USERS)?;
    match command {
        UserCommand::List => Ok(Report::new(&usage, list_text(&usage))),
        UserCommand::Show { user } => {
            let shown = find(&usage, user).ok_or_else(|| {
                Failure::new(format!(
                    "user {user} has nothing here; `vrdma user list` tells who has"
                ))
            })?;
            Ok(Report::new(shown, show_text(shown)))
        }
    }
}

fn find<'a>(usage: &'a Usage, user: &UnixName) -> Option<&'a UserUsage> {
    let is_it = |it: &&UserUsage| {
        user.number() == Some(it.uid) || it.name.as_deref() == Some(user.as_str())
    };
    usage.users.iter().find(is_it)
}

pub(crate) fn list_text(usage: &Usage) -> String {
    let columns: Vec<Column> = [Column::Text("USER")]
        .into_iter()
        .chain(SHOWN.map(|(heading, ..)| Column::Number(heading)))
        .collect();
    let mut rows: Vec<_> = usage.users.iter().map(user_row).collect();
    rows.push(row("all", &usage.all, |it| it.used));
    rows.push(row("limit", &usage.all, |it| it.limit));
    table(&columns, rows, "")
}

fn user_row(user: &UserUsage) -> Vec<String> {
    row(&name(user), &user.resources, |it| it.used)
}

fn row(title: &str, all: &[ResourceUsage], of: impl Fn(&ResourceUsage) -> u64) -> Vec<String> {
    let cells = SHOWN.map(|(_, kind, is_bytes)| {
        let found = all.iter().find(|it| it.kind == kind);
        found.map_or("-".to_owned(), |it| shown(of(it), is_bytes))
    });
    [title.to_owned()].into_iter().chain(cells).collect()
}

fn show_text(user: &UserUsage) -> String {
    let rows = user.resources.iter().map(|it| {
        let is_bytes = it.kind.starts_with("bytes");
        let [used, limit] = [it.used, it.limit].map(|amount| shown(amount, is_bytes));
        (it.kind.as_str(), format!("{used} of {limit}"))
    });
    let left_out = ("log lines left out", user.log_lines_left_out.to_string());
    let user = [("user", name(user))];
    facts(user.into_iter().chain(rows).chain([left_out]).collect())
}

fn shown(amount: u64, is_bytes: bool) -> String {
    match is_bytes {
        true => bytes(amount),
        false => amount.to_string(),
    }
}

fn name(user: &UserUsage) -> String {
    user.name.clone().unwrap_or_else(|| user.uid.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn usage() -> Usage {
        let resource = |kind: &str, used, limit| ResourceUsage {
            kind: kind.to_owned(),
            used,
            limit,
        };
        Usage {
            users: vec![UserUsage {
                uid: 4242,
                name: None,
                resources: vec![
                    resource("queue pairs", 3, 100),
                    resource("bytes of rings", 2048, 4096),
                ],
                log_lines_left_out: 7,
            }],
            all: vec![resource("queue pairs", 3, 400)],
        }
    }

    #[test]
    fn users_are_listed_beside_what_all_may_have() {
        let usage = usage();
        let text = list_text(&usage);
        let lines: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1][..4], ["4242", "-", "3", "-"]);
        assert_eq!(lines[3][..3], ["limit", "-", "400"]);
        let found = find(&usage, &"4242".parse().unwrap()).unwrap();
        assert!(show_text(found).contains("3 of 100"));
        assert!(find(&usage, &"1".parse().unwrap()).is_none());
    }
}
