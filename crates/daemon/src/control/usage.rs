//! Resources that users hold, as the API reports them.

use nix::unistd::{Uid, User};
use vrdma_api::{ResourceUsage, Usage, UserUsage};
use vrdma_process::Users;

pub(super) fn of(users: &Users) -> Usage {
    let of_user = |(uid, used): (u32, vrdma_process::UserUsage)| UserUsage {
        uid,
        name: name_of(uid),
        resources: used.resources.into_iter().map(resource).collect(),
        log_lines_left_out: used.log_lines_left_out,
    };
    Usage {
        users: users.usage().into_iter().map(of_user).collect(),
        all: users.usage_of_all().into_iter().map(resource).collect(),
    }
}

fn resource(of: vrdma_process::Usage) -> ResourceUsage {
    ResourceUsage {
        kind: of.kind.name().to_owned(),
        used: of.used,
        limit: of.limit,
    }
}

fn name_of(uid: u32) -> Option<String> {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map(|user| user.name)
}
