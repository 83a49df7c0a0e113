//! How far the model of two nodes goes, and what its nodes do that they must not.

use super::client::Kind;

/// How far the model goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub writes: u64,
    /// What a holder does with its lease.
    pub calls: &'static [Kind],
    /// Whether the first client heard of its grant; else it may ask again.
    pub heard: bool,
    /// Calls of each client under its one request id.
    pub attempts: [u8; 2],
    /// Processes and incarnations, the first two included.
    pub incarnations: u8,
    pub crashes: u8,
    /// Nodes that leave.
    pub drains: u8,
    /// Writes whose outcome is unknown.
    pub unknowns: u8,
    /// Whether reads of the key's record take their time, though not beyond a tick of the clock.
    pub slow_reads: bool,
    /// Whose readings of the nodes' records take their time, and for how many ticks at most.
    pub slow_scans: [bool; 2],
    pub scan_ticks: u8,
    /// Whether the rival sends heartbeats and releases as well, and asks at either node.
    pub rival_calls: bool,
    /// Which node may forget to keep its record.
    pub sleeps: [bool; 2],
    /// The second node is the first one's successor, at its address; the first does not know.
    pub successor: bool,
    /// The first client holds the key under a session, which lives at the first node; whether it has the key
    /// from the beginning, and whether it may end the session.
    pub session: bool,
    pub kept: bool,
    pub ends_session: bool,
    pub session_writes: u64,
    /// A plugin fences every tenure of the key that was not given back, before the next grant.
    pub fence: bool,
}

/// Two nodes, the first of which may sleep, be found dead and go on as another incarnation.
pub const NEIGHBOURS: Bounds = Bounds {
    writes: 3,
    calls: &[Kind::Heartbeat],
    heard: true,
    attempts: [1, 1],
    incarnations: 3,
    crashes: 0,
    drains: 0,
    unknowns: 0,
    slow_reads: false,
    slow_scans: [false, false],
    scan_ticks: 0,
    rival_calls: false,
    sleeps: [true, false],
    successor: false,
    session: false,
    kept: false,
    ends_session: false,
    session_writes: 0,
    fence: false,
};

/// A process that sleeps and wakes, and the one that took its place.
pub const SUCCESSOR: Bounds = Bounds { incarnations: 2, successor: true, ..NEIGHBOURS };

/// A node that leaves, and may be slow to stop.
pub const LEAVING: Bounds = Bounds { incarnations: 2, drains: 1, ..NEIGHBOURS };

/// A process that is killed, and started again.
pub const CRASH: Bounds = Bounds { crashes: 1, sleeps: [false, false], ..NEIGHBOURS };

/// A write whose outcome is unknown.
pub const UNKNOWN: Bounds = Bounds { incarnations: 2, unknowns: 1, ..NEIGHBOURS };

/// A grant that its client did not hear of.
pub const UNHEARD: Bounds =
    Bounds { incarnations: 2, heard: false, attempts: [2, 1], ..NEIGHBOURS };

/// A holder that gives the key back, at whichever node.
pub const CONSENT: Bounds =
    Bounds { incarnations: 2, calls: &[Kind::Heartbeat, Kind::Release], ..NEIGHBOURS };

/// Readings of the nodes' records that take their time; the first node may sleep.
pub const SLOW_SCANS: Bounds =
    Bounds { writes: 2, incarnations: 2, slow_scans: [false, true], scan_ticks: 1, ..NEIGHBOURS };

/// A reading during which a tick passes twice.
pub const SLOW_TWICE: Bounds = Bounds { scan_ticks: 2, ..SLOW_SCANS };

/// Such a reading by the successor of a process that sleeps.
pub const SLOW_SUCCESSOR: Bounds = Bounds { successor: true, ..SLOW_SCANS };

/// A node that leaves, and one that reads the nodes' records late.
pub const SLOW_LEAVING: Bounds = Bounds { drains: 1, ..SLOW_SCANS };

/// A process that is killed, and one that reads the nodes' records late.
pub const SLOW_CRASH: Bounds = Bounds { crashes: 1, sleeps: [false, false], ..SLOW_SCANS };

/// Reads of the key's record that take their time.
pub const SLOW_READS: Bounds = Bounds {
    unknowns: 0,
    slow_reads: true,
    slow_scans: [false, false],
    scan_ticks: 0,
    ..SLOW_SCANS
};

/// The same, and a write whose outcome is unknown.
pub const SLOW_UNKNOWN: Bounds = Bounds { unknowns: 1, ..SLOW_READS };

/// What a node does that it must not, where no rule of `lease/` would.
#[derive(Clone, Copy, Debug)]
pub struct ShellFaults {
    /// It goes on answering after it said that it leaves.
    pub drained_answers: bool,
    /// A reading counts from when it was asked for.
    pub counts_from_before: bool,
    /// A tombstone carries its author's instants: that one's clock is years behind.
    pub own_instants: bool,
    /// D of a dead node is taken from the copy that was read before.
    pub older_copy: bool,
    /// A tombstone is written whatever is there.
    pub blind_tombstone: bool,
    /// The key's lease is told that the session is over when its time is seen to be over.
    pub observed_expiry: bool,
    /// A grant is told without seeing its session alive after it.
    pub grant_unseen: bool,
}

pub const INNOCENT: ShellFaults = ShellFaults {
    drained_answers: false,
    counts_from_before: false,
    own_instants: false,
    older_copy: false,
    blind_tombstone: false,
    observed_expiry: false,
    grant_unseen: false,
};
pub const DRAINED_ANSWERS: ShellFaults = ShellFaults { drained_answers: true, ..INNOCENT };
