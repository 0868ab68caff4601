//! The resources of one client, of all clients of its user, and of all users: [quotas](super::quota) hold for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::lines::Lines;
use super::queue_pairs::QueuePairs;
use super::quota::{Counts, KINDS, Kind, Machine, Quotas};

/// Counts that clients on several shards share. Shards that count at the same moment may together exceed a quota by one
/// request each.
#[derive(Debug, Default)]
struct Shared([AtomicU64; KINDS]);

impl Shared {
    fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    fn take(&self, kind: Kind, count: u64) {
        self.0[kind as usize].fetch_add(count, Ordering::Relaxed);
    }

    fn give(&self, kind: Kind, count: u64) {
        self.0[kind as usize].fetch_sub(count, Ordering::Relaxed);
    }
}

/// The resources of all users, and the quotas for them.
#[derive(Debug)]
pub(super) struct Everybody {
    counts: Shared,
    quotas: Quotas,
    /// Limits the log lines about all users.
    lines: Lines,
    /// Limits the log lines about opened adapters apart: a client that opens them in a loop cannot hide refusals.
    openings: Lines,
}

impl Default for Everybody {
    fn default() -> Self {
        Self::on(Machine::here())
    }
}

impl Everybody {
    /// Makes the counts with the quotas of a machine.
    pub(super) fn on(machine: Machine) -> Self {
        Self {
            counts: Shared::default(),
            quotas: Quotas::of(machine),
            lines: Lines::default(),
            openings: Lines::default(),
        }
    }

    pub(super) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    pub(super) fn of(&self, kind: Kind) -> u64 {
        self.counts.of(kind)
    }
}

/// The resources of all clients of one user.
#[derive(Debug)]
pub(super) struct UserCounts {
    uid: u32,
    counts: Shared,
    everybody: Arc<Everybody>,
    pub(super) queue_pairs: QueuePairs,
    lines: Lines,
    openings: Lines,
    log_lines_left_out: AtomicU64,
}

impl UserCounts {
    pub(super) fn new(uid: u32, everybody: Arc<Everybody>) -> Self {
        Self {
            uid,
            counts: Shared::default(),
            everybody,
            queue_pairs: QueuePairs::default(),
            lines: Lines::default(),
            openings: Lines::default(),
            log_lines_left_out: AtomicU64::new(0),
        }
    }

    pub(super) fn of(&self, kind: Kind) -> u64 {
        self.counts.of(kind)
    }

    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether a line may be logged now about a fault of one of the user's clients.
    pub(super) fn may_tell(&self) -> bool {
        self.is_allowed(&self.lines, &self.everybody.lines)
    }

    /// Number of log lines that the user's clients caused and that were left out.
    pub(super) fn log_lines_left_out(&self) -> u64 {
        self.log_lines_left_out.load(Ordering::Relaxed)
    }

    /// Whether a line may be logged now about an adapter that a client of the user opened.
    pub(super) fn may_tell_opening(&self) -> bool {
        self.is_allowed(&self.openings, &self.everybody.openings)
    }

    fn is_allowed(&self, own: &Lines, of_all: &Lines) -> bool {
        let now = Instant::now();
        let allowed = own.allow(now) && of_all.allow(now);
        let left_out = u64::from(!allowed);
        self.log_lines_left_out
            .fetch_add(left_out, Ordering::Relaxed);
        allowed
    }

    /// Logs a refusal.
    fn tell(&self, kind: Kind, whose: Whose, most: u64) {
        if !self.may_tell() {
            return;
        }
        let (uid, what) = (self.uid, kind.name());
        let whose = match whose {
            Whose::Client => "one client may have",
            Whose::User => "all clients of a user may have",
            Whose::Everybody => "all users together may have",
        };
        tracing::warn!("a client of user {uid} was refused more {what}: {whose} {most}");
    }
}

/// The holder of a quota.
#[derive(Clone, Copy)]
enum Whose {
    Client,
    User,
    Everybody,
}

/// The resources of one client. Dropping this gives everything back.
#[derive(Debug)]
pub(super) struct Holdings {
    own: Counts,
    user: Arc<UserCounts>,
}

impl Holdings {
    /// Starts for a client without objects.
    pub(super) fn new(user: Arc<UserCounts>) -> Self {
        Self {
            own: Counts::default(),
            user,
        }
    }

    /// Whether `count` more are allowed.
    pub(super) fn has_room(&self, kind: Kind, count: u64) -> bool {
        self.exceeded(kind, count).is_none()
    }

    /// Whether `count` more are allowed; logs a refusal.
    pub(super) fn asks(&self, kind: Kind, count: u64) -> bool {
        let exceeded = self.exceeded(kind, count);
        if let Some((whose, most)) = exceeded {
            self.user.tell(kind, whose, most);
        }
        exceeded.is_none()
    }

    /// The quota that `count` more would exceed.
    fn exceeded(&self, kind: Kind, count: u64) -> Option<(Whose, u64)> {
        let everybody = &self.user.everybody;
        let most = everybody.quotas.most(kind);
        let used = [
            (Whose::Client, self.own[kind as usize], most.client),
            (Whose::User, self.user.of(kind), most.user),
            (Whose::Everybody, everybody.of(kind), most.all),
        ];
        let mut used = used.into_iter();
        let beyond = used.find(|(_, used, most)| count > most.saturating_sub(*used));
        beyond.map(|(whose, _, most)| (whose, most))
    }

    /// Count of a kind that the client has.
    pub(super) fn of(&self, kind: Kind) -> u64 {
        self.own[kind as usize]
    }

    /// The user's counts.
    pub(super) fn user(&self) -> &Arc<UserCounts> {
        &self.user
    }

    pub(super) fn take(&mut self, kind: Kind, count: u64) {
        self.own[kind as usize] += count;
        self.user.counts.take(kind, count);
        self.user.everybody.counts.take(kind, count);
    }

    /// Gives back what was taken before.
    pub(super) fn give(&mut self, kind: Kind, count: u64) {
        self.own[kind as usize] -= count;
        self.user.counts.give(kind, count);
        self.user.everybody.counts.give(kind, count);
    }
}

impl Drop for Holdings {
    fn drop(&mut self) {
        for kind in Kind::ALL {
            self.give(kind, self.of(kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(everybody: &Arc<Everybody>, uid: u32) -> Arc<UserCounts> {
        Arc::new(UserCounts::new(uid, Arc::clone(everybody)))
    }

    /// Makes clients of a user that take all they can, until a new one gets nothing.
    fn exhaust(user: &Arc<UserCounts>, kind: Kind) -> Vec<Holdings> {
        let mut clients = Vec::new();
        loop {
            let mut client = Holdings::new(Arc::clone(user));
            if !client.has_room(kind, 1) {
                return clients;
            }
            while client.has_room(kind, 1) {
                client.take(kind, 1);
            }
            clients.push(client);
        }
    }

    #[test]
    fn lines_that_the_log_is_not_told_are_counted_for_who_caused_them() {
        let everybody = Arc::<Everybody>::default();
        let [loud, other] = [1, 2].map(|uid| user(&everybody, uid));
        let told = (0..100).filter(|_| loud.may_tell()).count() as u64;
        assert_eq!(loud.log_lines_left_out(), 100 - told);
        assert!(told < 100);
        let told = u64::from(other.may_tell_opening());
        assert_eq!(other.log_lines_left_out(), 1 - told);
    }

    #[test]
    fn a_user_has_less_than_its_clients_could_have() {
        let everybody = Arc::<Everybody>::default();
        let user = user(&everybody, 1);
        let most = everybody.quotas().most(Kind::Pd);
        let mut clients = exhaust(&user, Kind::Pd);
        assert_eq!(user.of(Kind::Pd), most.user);
        assert!(clients.iter().all(|it| it.of(Kind::Pd) <= most.client));
        let mut last = Holdings::new(user);
        assert!(!last.has_room(Kind::Pd, 1) && last.has_room(Kind::Qp, 1));
        clients.pop();
        assert!(last.has_room(Kind::Pd, 1), "the end of a client gives back");
        last.take(Kind::RingBytes, 100);
        last.give(Kind::RingBytes, 60);
        assert_eq!(last.user.of(Kind::RingBytes), 40);
    }

    #[test]
    fn no_user_takes_what_another_needs_and_all_together_leave_the_reserve() {
        let everybody = Arc::<Everybody>::default();
        for kind in [Kind::Pd, Kind::Descriptor, Kind::CmClient] {
            let greedy = exhaust(&user(&everybody, 1), kind);
            let other = Holdings::new(user(&everybody, 2));
            assert!(other.has_room(kind, 1), "{}", kind.name());
            let others: Vec<_> = (2..40)
                .flat_map(|uid| exhaust(&user(&everybody, uid), kind))
                .collect();
            assert_eq!(everybody.of(kind), everybody.quotas().most(kind).all);
            assert!(!other.has_room(kind, 1));
            drop((greedy, others));
            assert_eq!(everybody.of(kind), 0, "all was given back");
        }
    }
}
