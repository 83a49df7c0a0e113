//! How much one principal may use.

/// How much one principal may use. `None`: only the limits for all callers together apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Calls per second. Heartbeats and releases have the same rate for themselves.
    pub rate: Option<u32>,
    /// Leases that it holds.
    pub held: Option<u32>,
    /// Sessions that live.
    pub sessions: Option<u32>,
    /// Places in queues: one for each key that a call waits at.
    pub waits: Option<u32>,
    /// Open event streams.
    pub streams: Option<u32>,
    /// The weight of each of its sessions in a pool.
    pub weight: Option<u32>,
    /// Open connections.
    pub connections: Option<u32>,
    /// Keys per hour that have no record yet.
    pub new_keys: Option<u32>,
}

impl Limit {
    /// The fields, by their names in the file.
    pub(super) const FIELDS: [&'static str; 8] =
        ["rate", "held", "sessions", "waits", "streams", "weight", "connections", "new_keys"];

    /// The fields with their values, in the order of [`Self::FIELDS`].
    #[must_use]
    pub fn fields(&self) -> [(&'static str, Option<u32>); 8] {
        let Self { rate, held, sessions, waits, streams, weight, connections, new_keys } = *self;
        let values = [rate, held, sessions, waits, streams, weight, connections, new_keys];
        std::array::from_fn(|at| (Self::FIELDS[at], values[at]))
    }

    /// The field with this name.
    pub(super) fn field_mut(&mut self, name: &str) -> Option<&mut Option<u32>> {
        match name {
            "rate" => Some(&mut self.rate),
            "held" => Some(&mut self.held),
            "sessions" => Some(&mut self.sessions),
            "waits" => Some(&mut self.waits),
            "streams" => Some(&mut self.streams),
            "weight" => Some(&mut self.weight),
            "connections" => Some(&mut self.connections),
            "new_keys" => Some(&mut self.new_keys),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_set_and_told_under_its_name() {
        for (at, name) in Limit::FIELDS.into_iter().enumerate() {
            let mut limit = Limit::default();
            *limit.field_mut(name).unwrap() = Some(7);
            let set: Vec<_> =
                limit.fields().into_iter().filter(|(_, value)| value.is_some()).collect();
            assert_eq!((set, limit.fields()[at]), (vec![(name, Some(7))], (name, Some(7))));
        }
        assert!(Limit::default().field_mut("bytes").is_none());
    }
}
