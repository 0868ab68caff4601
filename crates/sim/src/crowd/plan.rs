//! The plan of a seed: port groups, their tenants, and what each was promised.

use fastrand::Rng;
use vrdma_switch::Limit;

use super::{MESSAGE_BYTES, UNIT_COST};

/// Bits a second of a carrier that moves nothing else: a byte takes one nanosecond.
const SPEED_BITS: u64 = 8_000_000_000;

/// Lengths of messages: of an operation's cost, a packet, a quantum, and more than a unit.
const LENGTHS: [u32; 6] = [8, 700, 4096, 20_000, 64 << 10, 1 << 20];

/// The promises made to an adapter or a port group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) weight: u32,
    pub(super) limit: Option<(Limit, u64)>,
    pub(super) guarantee: Option<(Limit, u64)>,
}

impl Terms {
    /// Whether its weight alone decides what it gets.
    pub(super) fn is_weight_alone(&self) -> bool {
        self.limit.is_none() && self.guarantee.is_none()
    }
}

/// The behaviour of an adapter's owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Does {
    /// It always has as many messages posted as fit.
    Greedy { length: u32, reads: bool },
    /// It posts a short message, and the next one after a while.
    Light { pause_ns: u64 },
}

impl Does {
    pub(super) fn is_light(self) -> bool {
        matches!(self, Self::Light { .. })
    }

    pub(super) fn length(self) -> u32 {
        match self {
            Self::Greedy { length, .. } => length,
            Self::Light { .. } => 64,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct TenantPlan {
    pub(super) terms: Terms,
    pub(super) does: Does,
}

#[derive(Clone, Debug)]
pub(super) struct GroupPlan {
    pub(super) terms: Terms,
    pub(super) tenants: Vec<TenantPlan>,
}

/// The promises besides weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Promise {
    Nothing,
    Limits,
    Guarantees,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) groups: Vec<GroupPlan>,
    /// The longest unit of an engine.
    pub(super) unit_bytes: u32,
}

impl Plan {
    pub(super) fn of(random: &mut Rng) -> Self {
        let promise = [Promise::Nothing, Promise::Limits, Promise::Guarantees][random.usize(..3)];
        let unit_bytes = [16 << 10, 64 << 10, 256 << 10][random.usize(..3)];
        let mut groups: Vec<_> = (0..random.usize(2..=3))
            .map(|_| group(random, promise))
            .collect();
        if random.bool() {
            let terms = Terms {
                limit: None,
                ..terms(random, promise)
            };
            let tenants = vec![light(random)];
            groups.push(GroupPlan { terms, tenants });
        }
        if promise == Promise::Guarantees {
            guarantee(random, &mut groups);
        }
        Self { groups, unit_bytes }
    }
}

fn group(random: &mut Rng, promise: Promise) -> GroupPlan {
    let mut tenants: Vec<_> = (0..random.usize(1..=3))
        .map(|_| TenantPlan {
            terms: terms(random, promise),
            does: Does::Greedy {
                length: LENGTHS[random.usize(..LENGTHS.len())],
                // Payload that is read is sent by another adapter, and limits would be those of its sink.
                reads: promise != Promise::Limits && random.u8(..4) == 0,
            },
        })
        .collect();
    let terms = terms(random, promise);
    if terms.limit.is_none() && random.bool() {
        tenants.push(light(random));
    }
    GroupPlan { terms, tenants }
}

/// Makes a tenant that wants less than its share, whatever that is.
fn light(random: &mut Rng) -> TenantPlan {
    TenantPlan {
        terms: Terms {
            weight: 1,
            limit: None,
            guarantee: None,
        },
        does: Does::Light {
            pause_ns: random.u64(1_000_000..4_000_000),
        },
    }
}

fn terms(random: &mut Rng, promise: Promise) -> Terms {
    let weights = [1, 1, 2, 3, 5];
    let limited = promise == Promise::Limits && random.u8(..3) == 0;
    Terms {
        weight: weights[random.usize(..weights.len())],
        limit: limited.then(|| limit(random)),
        guarantee: None,
    }
}

/// Makes a limit between a hundredth and a tenth of what the carrier can do.
fn limit(random: &mut Rng) -> (Limit, u64) {
    let limit = Limit::ALL[random.usize(..Limit::ALL.len())];
    let bits = random.u64(SPEED_BITS / 100..SPEED_BITS / 10);
    match limit {
        Limit::OutBits | Limit::InBits => (limit, bits),
        Limit::OutOps | Limit::InOps => (limit, bits / 8 / random.u64(1000..100_000)),
    }
}

/// Promises an adapter, or the one that it sends to, much more than its weight gives, and perhaps a whole group, too.
fn guarantee(random: &mut Rng, groups: &mut [GroupPlan]) {
    let mut promise = |terms: &mut Terms| {
        let of = Limit::ALL[random.usize(..Limit::ALL.len())];
        let bits = random.u64(SPEED_BITS / 20..SPEED_BITS / 5);
        let rate = match of {
            Limit::OutBits | Limit::InBits => bits,
            Limit::OutOps | Limit::InOps => bits / 8 / (MESSAGE_BYTES + UNIT_COST),
        };
        terms.weight = 1;
        terms.guarantee = Some((of, rate));
    };
    promise(&mut groups[0].tenants[0].terms);
    if let [_, second, ..] = groups {
        promise(&mut second.terms);
    }
}
