//! Users and groups of the host that may use adapters.

use nix::unistd::{Group, User};
use vrdma_api::{Adapter, AdapterChange, AdapterKind, Name, UnixName};
use vrdma_process::Admitted;

use super::{Field, Inventory, Plugged, Refusal};

/// Most users that one adapter or port group may name, and most groups.
pub(super) const NAMES_MAX: usize = 64;

/// Users and groups that are named, and their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct People {
    pub(super) users: Vec<UnixName>,
    pub(super) groups: Vec<UnixName>,
    pub(super) admitted: Admitted,
}

impl People {
    /// Looks the names up.
    pub(super) fn find(users: &[UnixName], groups: &[UnixName]) -> Result<Self, Refusal> {
        check_count(Field::Users, users)?;
        check_count(Field::Groups, groups)?;
        let user = |name| find_user(name).ok_or_else(|| Refusal::no_user(name));
        let group = |name| find_group(name).ok_or_else(|| Refusal::no_group(name));
        Ok(Self {
            users: users.to_vec(),
            groups: groups.to_vec(),
            admitted: Admitted {
                users: users.iter().map(user).collect::<Result<_, _>>()?,
                groups: groups.iter().map(group).collect::<Result<_, _>>()?,
            },
        })
    }

    /// Whether no user or group is named.
    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }
}

impl People {
    /// Fills in the users and groups that may use an adapter which names these, in a port group that names `of_group`.
    pub(super) fn admit(&self, of_group: &Self, adapter: &mut Adapter) -> Admitted {
        let people = if self.is_empty() { of_group } else { self };
        adapter.users.clone_from(&people.users);
        adapter.groups.clone_from(&people.groups);
        people.admitted.clone()
    }
}

impl Inventory {
    /// Returns the users and groups that a change names for an adapter, if it does.
    pub(super) fn changed_people(
        &self,
        name: &Name,
        change: &AdapterChange,
    ) -> Result<Option<People>, Refusal> {
        if change.users.is_none() && change.groups.is_none() {
            return Ok(None);
        }
        let Plugged {
            adapter, people, ..
        } = self.plugged(name)?;
        if adapter.kind == AdapterKind::Tap {
            return Err(Refusal::no_users_for_tap());
        }
        let users = change.users.as_ref().unwrap_or(&people.users);
        let groups = change.groups.as_ref().unwrap_or(&people.groups);
        People::find(users, groups).map(Some)
    }

    /// Returns the users and groups that an adapter names itself.
    pub(crate) fn people_of(&self, name: &Name) -> Option<(Vec<UnixName>, Vec<UnixName>)> {
        let people = &self.adapters.get(name)?.people;
        Some((people.users.clone(), people.groups.clone()))
    }

    pub(super) fn change_people(&mut self, name: &Name, people: People) {
        let Some(plugged) = self.adapters.get_mut(name) else {
            return;
        };
        if let Some(group) = self.groups.get(&plugged.adapter.portgroup) {
            people.admit(&group.people, &mut plugged.adapter);
        }
        plugged.people = people;
    }

    /// Returns the users and groups that may use an adapter, for the data path.
    ///
    /// # Errors
    /// There is no such adapter.
    pub fn admitted(&self, name: &Name) -> Result<Admitted, Refusal> {
        let Plugged {
            adapter, people, ..
        } = self.plugged(name)?;
        let of_group = self.groups.get(&adapter.portgroup);
        let named = of_group.filter(|_| people.is_empty());
        let people = named.map_or(people, |group| &group.people);
        Ok(people.admitted.clone())
    }
}

fn check_count(field: Field, names: &[UnixName]) -> Result<(), Refusal> {
    match names.len() {
        0..=NAMES_MAX => Ok(()),
        _ => Err(Refusal::too_many_names(field, NAMES_MAX)),
    }
}

fn find_user(name: &UnixName) -> Option<u32> {
    let found = || User::from_name(name.as_str()).ok().flatten();
    name.number().or_else(|| Some(found()?.uid.as_raw()))
}

fn find_group(name: &UnixName) -> Option<u32> {
    let found = || Group::from_name(name.as_str()).ok().flatten();
    name.number().or_else(|| Some(found()?.gid.as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Vec<UnixName> {
        all.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn names_become_numbers_and_numbers_stay() {
        let people = People::find(&names(&["root", "4242"]), &names(&["root"])).unwrap();
        assert_eq!(people.admitted.users, [0, 4242].into());
        assert_eq!(people.admitted.groups, [0].into());
        let refusal = People::find(&names(&["no-such-user"]), &[]).unwrap_err();
        assert_eq!(refusal.field, Field::Users);
        assert!(refusal.to_string().contains("no user \"no-such-user\""));
        let refusal = People::find(&[], &names(&["no-such-group"])).unwrap_err();
        assert_eq!(refusal.field, Field::Groups);
        let many = names(&["1"; NAMES_MAX + 1]);
        assert!(People::find(&many, &[]).is_err());
    }
}
