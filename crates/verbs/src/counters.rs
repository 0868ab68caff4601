//! Counters of what an adapter has done since it was made.

/// Messages by kind, and their payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names are the kinds")]
pub struct Traffic {
    pub sends: u64,
    pub writes: u64,
    pub reads: u64,
    pub atomics: u64,
    pub datagrams: u64,
    /// Payload of SENDs, WRITEs and datagrams, and data of READs at the requester's side.
    pub bytes: u64,
}

/// Units that arrived and had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops {
    /// No such QP, or one of another service.
    pub unknown_qp: u64,
    /// The QP does not receive in its state.
    pub wrong_state: u64,
    /// Not from the QP's connected peer.
    pub wrong_peer: u64,
    /// In a foreign partition.
    pub wrong_pkey: u64,
    /// To a GID that is not bound.
    pub unbound_gid: u64,
    /// A datagram with a Q_Key other than the QP's.
    pub wrong_qkey: u64,
    /// A datagram longer than the port's MTU, or with a tail that datagrams do not have; a unit of an unreliable
    /// connection that does not fit its message or its receive.
    pub malformed: u64,
    /// No receive was there, and the service does not report that.
    pub no_receive: u64,
    /// A WRITE of an unreliable connection to memory that it may not write.
    pub no_access: u64,
    /// Out of sequence, after the gap was reported or on a service that reports no gaps.
    pub out_of_sequence: u64,
    /// The sender's memory was gone when its payload was fetched.
    pub source_fault: u64,
    /// A response to nothing that is outstanding.
    pub stale_response: u64,
}

impl Drops {
    /// Returns what a port reports of wrong partition keys and of datagrams' wrong Q_Keys: counters of 16 bits that
    /// stop at their largest number (IBTA 14.2.5.6, P_KeyViolations and Q_KeyViolations).
    pub fn key_violations(&self) -> [u16; 2] {
        [self.wrong_pkey, self.wrong_qkey].map(|count| u16::try_from(count).unwrap_or(u16::MAX))
    }
}

/// Counters of one adapter. They wrap after centuries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Messages begun by our requesters.
    pub sent: Traffic,
    /// Messages finished by our responders.
    pub received: Traffic,
    /// Dropped units.
    pub drops: Drops,
    /// Requests that arrived again.
    pub duplicates: u64,
    /// Refusals by our responders, without the two below.
    pub naks_sent: u64,
    /// Gaps reported by our responders.
    pub sequence_naks_sent: u64,
    /// "No receive posted" from our responders.
    pub rnr_naks_sent: u64,
    /// Refusals by peers, without the two below.
    pub naks_received: u64,
    /// Gaps reported by peers.
    pub sequence_naks_received: u64,
    /// "No receive posted" from peers.
    pub rnr_naks_received: u64,
    /// Times that a requester went back.
    pub retries: u64,
    /// Notifications of congestion by peers.
    pub congestion_received: u64,
    /// Notifications of congestion to peers.
    pub congestion_sent: u64,
    /// Retries because no response came in time; `retries` includes them.
    pub timeouts: u64,
}

/// Live objects of one adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names are the objects")]
pub struct Counts {
    pub pds: u32,
    pub mrs: u32,
    pub mws: u32,
    pub cqs: u32,
    pub qps: u32,
    pub srqs: u32,
}
