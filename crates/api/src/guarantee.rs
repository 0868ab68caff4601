//! Checks guarantees against limits: no guarantee may exceed its limit.

use std::fmt;

use crate::Limits;

impl Limits {
    /// Returns the first guarantee that exceeds its limit.
    pub fn contradiction(&self) -> Option<Contradiction> {
        let bits = [
            (Guarantee::Out, self.guarantee_out, self.limit_out),
            (Guarantee::In, self.guarantee_in, self.limit_in),
        ];
        let ops = [
            (
                Guarantee::OutOps,
                self.guarantee_out_ops,
                self.limit_out_ops,
            ),
            (Guarantee::InOps, self.guarantee_in_ops, self.limit_in_ops),
        ];
        let bits = bits.map(|(of, guarantee, limit)| contradiction(of, guarantee, limit));
        let ops = ops.map(|(of, guarantee, limit)| contradiction(of, guarantee, limit));
        bits.into_iter().chain(ops).flatten().next()
    }
}

fn contradiction<T>(of: Guarantee, guarantee: Option<T>, limit: Option<T>) -> Option<Contradiction>
where
    T: PartialOrd + fmt::Display,
{
    let both = guarantee.zip(limit);
    let wrong = both.filter(|(guarantee, limit)| guarantee > limit);
    wrong.map(|(guarantee, limit)| Contradiction {
        of,
        guarantee: guarantee.to_string(),
        limit: limit.to_string(),
    })
}

/// One of the guarantees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guarantee {
    /// `guarantee_out`
    Out,
    /// `guarantee_in`
    In,
    /// `guarantee_out_ops`
    OutOps,
    /// `guarantee_in_ops`
    InOps,
}

impl Guarantee {
    /// Returns the common end of the names of the guarantee and its limit.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
            Self::OutOps => "out_ops",
            Self::InOps => "in_ops",
        }
    }
}

/// A guarantee that exceeds its limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contradiction {
    /// The guarantee.
    pub of: Guarantee,
    guarantee: String,
    limit: String,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            guarantee, limit, ..
        } = self;
        let of = self.of.suffix();
        write!(
            f,
            "a guarantee of {guarantee} is more than limit_{of}, {limit}, lets pass; lower guarantee_{of} or raise limit_{of}"
        )
    }
}
