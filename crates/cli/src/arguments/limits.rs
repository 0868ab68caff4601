//! The grammar of limits.

use std::str::FromStr;

use clap::Args;
use vrdma_api::{OpsRate, Rate};

/// Limits of something new.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LimitOptions {
    /// The most that it sends, in bits a second: 400kbit or more, such as 500mbit or 10gbit
    #[arg(long, value_name = "RATE")]
    pub(crate) limit_out: Option<Rate>,
    /// The most that it receives, in bits a second
    #[arg(long, value_name = "RATE")]
    pub(crate) limit_in: Option<Rate>,
    /// The most messages that it sends in a second: 100 or more, such as 5000 or 100k
    #[arg(long, value_name = "NUMBER")]
    pub(crate) limit_out_ops: Option<OpsRate>,
    /// The most messages that it receives in a second
    #[arg(long, value_name = "NUMBER")]
    pub(crate) limit_in_ops: Option<OpsRate>,
    /// The rate that it can always send, whatever others of its shard do, in bits a second: at most its limit
    #[arg(long, value_name = "RATE")]
    pub(crate) guarantee_out: Option<Rate>,
    /// The rate that others of its host can always send to it, whatever they and others do besides, in bits a second
    #[arg(long, value_name = "RATE")]
    pub(crate) guarantee_in: Option<Rate>,
    /// Messages that it can always send in a second; each 4 KiB of a long one count as one
    #[arg(long, value_name = "NUMBER")]
    pub(crate) guarantee_out_ops: Option<OpsRate>,
    /// Messages that others of its host can always send to it in a second
    #[arg(long, value_name = "NUMBER")]
    pub(crate) guarantee_in_ops: Option<OpsRate>,
}

/// Limits to change.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LimitChanges {
    /// The most that it sends, in bits a second: 400kbit or more, such as 500mbit or 10gbit; or
    /// none
    #[arg(long, value_name = "RATE", group = "change")]
    pub(crate) limit_out: Option<Limit<Rate>>,
    /// The most that it receives, in bits a second; or none
    #[arg(long, value_name = "RATE", group = "change")]
    pub(crate) limit_in: Option<Limit<Rate>>,
    /// The most messages that it sends in a second: 100 or more, such as 5000 or 100k; or none
    #[arg(long, value_name = "NUMBER", group = "change")]
    pub(crate) limit_out_ops: Option<Limit<OpsRate>>,
    /// The most messages that it receives in a second; or none
    #[arg(long, value_name = "NUMBER", group = "change")]
    pub(crate) limit_in_ops: Option<Limit<OpsRate>>,
    /// The rate that it can always send, whatever others of its shard do, in bits a second: at most its limit; or none
    #[arg(long, value_name = "RATE", group = "change")]
    pub(crate) guarantee_out: Option<Limit<Rate>>,
    /// The rate that others of its host can always send to it, whatever they and others do besides, in bits a second;
    /// or none
    #[arg(long, value_name = "RATE", group = "change")]
    pub(crate) guarantee_in: Option<Limit<Rate>>,
    /// Messages that it can always send in a second, each 4 KiB of a long one counted as one; or none
    #[arg(long, value_name = "NUMBER", group = "change")]
    pub(crate) guarantee_out_ops: Option<Limit<OpsRate>>,
    /// Messages that others of its host can always send to it in a second; or none
    #[arg(long, value_name = "NUMBER", group = "change")]
    pub(crate) guarantee_in_ops: Option<Limit<OpsRate>>,
}

/// A limit to set, or to take away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit<T>(pub(crate) Option<T>);

impl<T: FromStr> FromStr for Limit<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        match text {
            "none" => Ok(Self(None)),
            _ => text.parse().map(|rate| Self(Some(rate))),
        }
    }
}
